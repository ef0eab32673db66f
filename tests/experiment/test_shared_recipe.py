"""Recipes: every method gets the same training, or a sentence says what it does not get."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from itaml.data.benchmarks import BENCHMARKS
from itaml.errors import UnknownNameError
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import default_folder, recipe_notes, resolve
from itaml.experiment.shared_recipe import recipe_names, recipe_summary
from itaml.learners import LEARNERS
from itaml.learners.learner import GradientLearner
from itaml.learners.settings import RecipeSettings

TRAINED = [name for name in LEARNERS.names() if LEARNERS.load(name).traits.trains_gradients]
EFFORT = ("epochs", "first_epochs", "batch_size", "schedule", "warmup", "clip", "augment", "backbone")
INGREDIENTS = [
    *(name for name in RecipeSettings.__annotations__ if name != "temperature"),
    "flip_tta",
    "shift_tta",
    "align_head",
]


@pytest.mark.parametrize("recipe", recipe_names())
@pytest.mark.parametrize("method", TRAINED)
def test_every_method_has_the_same_effort_on_every_benchmark(method: str, recipe: str) -> None:
    for benchmark in BENCHMARKS:
        expected = resolve(benchmark, method="replay", recipe=recipe).settings
        found = resolve(benchmark, method=method, recipe=recipe).settings
        assert {name: found[name] for name in EFFORT} == {name: expected[name] for name in EFFORT}
        if LEARNERS.load(method).traits.uses_memory:
            assert found["memory"] == expected["memory"]


@pytest.mark.parametrize("recipe", recipe_names())
@pytest.mark.parametrize("method", TRAINED)
def test_every_method_can_be_made_with_every_recipe(method: str, recipe: str) -> None:
    config = resolve("digits", method=method, recipe=recipe)
    learner = make_learner(config, make_stream(config))
    assert isinstance(learner, GradientLearner)
    made = learner.settings.model_dump(mode="json")
    assert {name: made[name] for name in EFFORT} == {name: config.settings[name] for name in EFFORT}


@pytest.mark.parametrize("method", TRAINED)
def test_plain_switches_every_ingredient_but_augmentation_off(method: str) -> None:
    settings = resolve("cifar100-10", method=method, recipe="plain").settings
    for name in INGREDIENTS:
        if name != "augment":
            assert settings[name] == RecipeSettings.model_fields[name].default, name
    assert settings["augment"] == "crop-flip"
    assert not recipe_notes(resolve("cifar100-10", method=method, recipe="plain"))


@pytest.mark.parametrize("method", TRAINED)
def test_what_a_method_lacks_of_strong_stands_in_its_notes(method: str) -> None:
    config = resolve("mnist-5", method=method, recipe="strong")
    notes = " ".join(recipe_notes(config))
    for name in ("class_balancing", "distill"):
        given = resolve("mnist-5", method="itaml", recipe="strong").settings[name]
        assert (config.settings[name] != given) == (name in notes)


def test_notes_name_the_reason() -> None:
    notes = {name: recipe_notes(resolve("mnist-5", method=name, recipe="strong")) for name in LEARNERS.names()}
    assert notes["itaml"] == notes["replay"] == notes["joint"] == ()
    assert notes["bic"] == ("bic has a teacher of its own: without distill",)
    assert notes["icarl"][1] == "icarl excludes class_balancing: without"
    assert notes["reptile"] == ("reptile computes a loss of its own: without class_balancing and distill",)
    assert notes["lda"] == ("lda takes no gradient steps, so the recipe does not concern it",)


def test_a_preset_keeps_its_loss_under_a_recipe() -> None:
    paper = resolve("mnist-5", preset="paper", recipe="strong")
    assert (paper.settings["loss"], paper.settings["negatives"]) == ("bce", "own")
    assert recipe_notes(paper) == ("itaml excludes class_balancing: without",)
    assert resolve("mnist-5", method="icarl", recipe="plain").settings["selection"] == "herding"


def test_overrides_go_before_the_recipe_and_folders_tell_recipes_apart() -> None:
    config = resolve("mnist-5", recipe="plain", overrides={"epochs": 1})
    assert (config.settings["epochs"], config.recipe) == (1, "plain")
    assert default_folder(config, "runs").name == "itaml-best-plain-epochs=1-seed0"
    assert default_folder(resolve("mnist-5"), "runs").name == "itaml-best-seed0"


def test_an_unknown_recipe_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no recipe 'plane'; did you mean 'plain'\?"):
        resolve("digits", recipe="plane")


@pytest.mark.parametrize("recipe", recipe_names())
def test_rates_are_of_methods_and_benchmarks_that_exist(recipe: str) -> None:
    table = tomllib.loads(files("itaml").joinpath("recipes", f"{recipe}.toml").read_text(encoding="utf-8"))
    assert len(recipe_summary(recipe)) > 20
    for name, section in table.items():
        if isinstance(section, dict) and name != "methods":
            assert any(f"{known}-".startswith(f"{name}-") for known in BENCHMARKS), name
            for target, rate in section.get("rates", {}).items():
                assert target.partition(":")[0] in TRAINED
                assert set(rate) <= {"optimizer", "lr", "momentum"}


@pytest.mark.parametrize("method", ["icarl", "bic", "reptile"])
def test_what_follows_an_ingredient_is_left_out_with_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    balanced = 'class_balancing = "logits"\nrehearsal_cutmix = 0.5\nbalance_strength = 1.2\n'
    text = f"{balanced}distill = 1.0\ndistill_growth = 0.5\n"
    monkeypatch.setattr("itaml.experiment.shared_recipe._data", lambda name: text.encode())
    found = resolve("mnist-5", method=method, recipe="any").settings
    assert (found["distill"], found["distill_growth"]) == (0.0, 0.0)
    expected = ("logits", 0.5, 1.2) if method == "bic" else ("tasks", 0.0, 1.0)
    assert (found["class_balancing"], found["rehearsal_cutmix"], found["balance_strength"]) == expected
