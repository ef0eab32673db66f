"""Settings: checked by name and type, presets, overrides; errors are one line and name the thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from itaml.config import Seeds, build, load_preset, parse_overrides, parse_preset, preset_summary, presets
from itaml.errors import SettingsError, UnknownNameError, UsageError
from itaml.learners.methods.itaml_settings import ITAMLSettings


def test_settings_are_frozen() -> None:
    settings = ITAMLSettings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.lr = 1.0  # type: ignore[misc]


def test_an_unknown_setting_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"^no setting 'epoch'; did you mean 'epochs'\?$"):
        build(ITAMLSettings, {"epoch": 3})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epochs": 0}, ["epochs", "greater than or equal to 1", "0"]),
        ({"lr": -1.0}, ["lr", "greater than 0", "-1.0"]),
        ({"lr": "fast"}, ["lr", "number", "'fast'"]),
        ({"lr": float("nan")}, ["lr", "finite"]),
        ({"momentum": 1.0}, ["momentum", "less than 1"]),
        ({"loss": "mse"}, ["loss", "'bce' or 'ce'", "'mse'"]),
        ({"memory": -1}, ["memory", "-1"]),
        ({"engine": "fused", "inner_steps": 2}, ["engine=fused", "inner_steps=1"]),
        ({"engine": "fused", "update": "released"}, ["engine=fused", "update=paper"]),
        ({"memory": 0, "adapt_steps": 1}, ["memory", "adapt_steps=0"]),
        ({"memory": 0, "task_score": "calibrated"}, ["memory", "task_score"]),
    ],
)
def test_an_impossible_value_is_one_line_that_names_it(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        build(ITAMLSettings, values)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("lr=0.5", 0.5),
        ("epochs=3", 3),
        ("adapt_guard=false", False),
        ("milestones=5,10", [5, 10]),
        ("milestones=[5, 10]", [5, 10]),
        ("loss = ce", "ce"),
        ("augment=crop-flip", "crop-flip"),
        ("horizon=open", "open"),
        ("x=a=b", "a=b"),
    ],
)
def test_overrides_are_read_as_values(word: str, value: object) -> None:
    assert list(parse_overrides([word]).values()) == [value]


@pytest.mark.parametrize("word", ["epochs", "=3", " = 3"])
def test_an_override_without_a_key_or_a_value_is_refused(word: str) -> None:
    with pytest.raises(SettingsError, match="key=value"):
        parse_overrides([word])


def test_the_last_override_wins() -> None:
    assert parse_overrides(["lr=1", "lr=2"]) == {"lr": 2}


def test_seeds_follow_the_root_and_classes_keep_their_order() -> None:
    assert Seeds.of(7).model_dump() == {
        "init": 7,
        "batches": 7,
        "augment": 7,
        "memory": 7,
        "adapt": 7,
        "continua": 7,
        "order": None,
    }
    assert Seeds.of(7, memory=1, order=2).model_dump(include={"init", "memory", "order"}) == {
        "init": 7,
        "memory": 1,
        "order": 2,
    }


def test_presets_are_listed_with_the_default_first_and_each_says_what_it_is() -> None:
    names = presets("itaml")
    assert names[0] == "best"
    assert set(names) >= {"best", "paper", "released"}
    assert all(len(preset_summary("itaml", name)) > 20 for name in names)


def test_an_unknown_preset_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no preset for itaml 'papper'; did you mean 'paper'\?"):
        load_preset("itaml", "papper", benchmark="digits")


def test_a_plug_in_without_presets_runs_with_its_defaults_and_nothing_else() -> None:
    assert load_preset("no-such-method", "best", benchmark="digits") == {}
    with pytest.raises(UnknownNameError):
        load_preset("no-such-method", "paper", benchmark="digits")


def test_the_literal_presets_say_what_the_paper_and_the_released_code_do() -> None:
    paper = load_preset("itaml", "paper", benchmark="digits")
    literal = {"update": "paper", "loss": "bce", "negatives": "own", "task_score": "max-logit", "adapt_steps": 1}
    assert literal.items() <= paper.items()
    released = load_preset("itaml", "released", benchmark="digits")
    assert {"update": "released", "selection": "first", "adapt_optimizer": "adam"}.items() <= released.items()
    for name in presets("itaml"):
        for benchmark in ("digits", "mnist-5", "cifar100-10", "folder:somewhere"):
            assert build(ITAMLSettings, load_preset("itaml", name, benchmark=benchmark))


@pytest.mark.parametrize("benchmark", ["folder:somewhere", "library"])
def test_own_images_that_are_trained_from_scratch_get_the_recipe(benchmark: str) -> None:
    recipe = {"selection": "herding", "class_balancing": "logits", "distill": 1.0, "cache_teacher_logits": True}
    assert recipe.items() <= load_preset("itaml", "best", benchmark=benchmark).items()


@pytest.mark.parametrize(
    ("benchmark", "values"),
    [
        ("cifar100-10", {"lr": 3, "epochs": 2, "beta": 1}),
        ("cifar100-5", {"lr": 2, "epochs": 2, "beta": 1}),
        ("digits", {"lr": 1, "epochs": 1, "beta": 1}),
    ],
)
def test_a_benchmarks_table_overrides_its_familys_and_that_the_top(benchmark: str, values: dict[str, int]) -> None:
    data = b"lr = 1\nepochs = 1\nbeta = 1\n[cifar100]\nlr = 2\nepochs = 2\n[cifar100-10]\nlr = 3\n"
    assert parse_preset(data, source="a preset", benchmark=benchmark) == values


def test_a_preset_inherits_the_values_of_another_for_the_same_benchmark(tmp_path: Path) -> None:
    for benchmark, changed in (("digits", {}), ("cifar100-10", {"epochs": 8}), ("mnist-5", {})):
        best, own = (load_preset("itaml", name, benchmark=benchmark) for name in ("best", "best-bytes"))
        assert own == {**best, **changed, "memory_bytes": own["memory_bytes"]}
    assert load_preset("itaml", "best-bytes", benchmark="cifar100-10")["memory_bytes"] == 2000 * 3 * 32 * 32
    file = tmp_path / "mine.toml"
    file.write_text('inherits = "paper"\nlr = 0.5\n[digits]\nepochs = 3\n')
    paper = load_preset("itaml", "paper", benchmark="digits")
    assert load_preset("itaml", str(file), benchmark="digits") == {**paper, "lr": 0.5, "epochs": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('inherits = "papper"', "no preset for itaml 'papper'; did you mean 'paper'"),
        ("inherits = 3", r"inherits names a preset of the method \(got 3\)"),
        ('inherits = "other.toml"', "inherits names a preset of the method"),
    ],
)
def test_a_preset_that_cannot_inherit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_preset("itaml", str(file), benchmark="digits")


def test_a_preset_that_inherits_from_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = {"best": "paper", "paper": "released", "released": "paper"}
    monkeypatch.setattr("itaml.config._own_values", lambda _, preset, **__: {"inherits": parents[preset]})
    with pytest.raises(SettingsError, match="best inherits from itself: best -> paper -> released -> paper"):
        load_preset("itaml", "best", benchmark="digits")
