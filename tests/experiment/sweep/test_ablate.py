"""Ablations.

Which runs a parameter needs and where they are, refused values, one learner measured under many settings.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiment_support import checkpoint, short
from itaml.data.benchmarks import BENCHMARKS
from itaml.errors import CheckpointError, ItamlError, SettingsError, UnknownNameError, UsageError
from itaml.experiment.reevaluate import Reevaluator
from itaml.experiment.result_assembly import CURVE
from itaml.experiment.run_config import default_folder, resolve
from itaml.experiment.run_folder import CHECKPOINT
from itaml.experiment.runner import run_experiment
from itaml.experiment.sweep.ablate import Plan, check, plan
from itaml.experiment.sweep.job import KEPT, WAITING
from itaml.experiment.sweep.parameters import SWEEP_PARAMETERS, default_values
from itaml.learners import LEARNERS
from itaml.learners.api import Prediction
from itaml.learners.settings import TrainingSettings
from itaml.metrics.evaluate import evaluate
from itaml.registry import Entry
from support import same_bits


class Own:
    """A learner that is not trained by our loop: nobody knows what it reads while it learns."""

    Settings = TrainingSettings

    def learn(self, task: Any) -> None: ...

    def predict(self, continuum: torch.Tensor) -> Prediction: ...  # type: ignore[empty-body]


def _plan(runs: Path, over: str, *values: str, benchmark: str = "digits", **rest: Any) -> Plan:
    chosen = {"method": "itaml", "preset": "best", "seeds": (0,)} | rest
    return plan(benchmark, over=over, values=values or None, runs=runs, **chosen)


def _names(made: Plan) -> list[str]:
    return [job.folder.name for job in made.jobs]


def test_every_value_and_seed_is_a_run_that_is_named_by_what_differs(tmp_path: Path) -> None:
    made = _plan(tmp_path, "beta", "0", "1", seeds=(0, 1, 0), overrides={"epochs": 2, "seeds.init": 7})
    assert [variant.label for variant in made.variants] == ["0", "1"]
    assert _names(made) == [
        "itaml-best-beta=0,epochs=2,seeds.init=7-seed0",
        "itaml-best-beta=0,epochs=2,seeds.init=7-seed1",
        "itaml-best-beta=1,epochs=2,seeds.init=7-seed0",
        "itaml-best-beta=1,epochs=2,seeds.init=7-seed1",
    ]
    assert [job.config.settings["beta"] for job in made.jobs] == [0, 0, 1, 1]
    assert made.jobs[0].name == "itaml (best), beta=0, seed 0"


def test_the_preset_itself_is_the_run_that_compare_has(tmp_path: Path) -> None:
    made = _plan(tmp_path, "beta", "0.5", "2")
    assert made.plain.settings["beta"] == 0.5
    assert made.jobs[0].folder == default_folder(made.plain, tmp_path)
    assert _plan(tmp_path, "inner_steps", "1").jobs[0].folder == made.jobs[0].folder  # another parameter, the same run
    assert made.jobs[1].folder.name == "itaml-best-beta=2-seed0"


def test_a_name_is_short_and_safe_and_still_tells_runs_apart(tmp_path: Path) -> None:
    stones = [1, *range(3, 40)]
    names = [
        _names(_plan(tmp_path, "beta", "2", overrides={"schedule": "step", "milestones": [*stones, last]}))[0]
        for last in (50, 60)
    ]
    assert names[0] != names[1]
    assert all(len(name) < 130 and set(name) <= set(",.=+-_") | set(map(chr, range(48, 123))) for name in names)


NEEDED = {  # what a parameter has no effect without
    "adapt_anchor": {"adapt_scope": "own-head"},
    "adapt_lda": {"adapt_scope": "own-head"},
    "task_temperature": {"task_score": "energy"},
    "task_distance_weight": {"task_distance": "nearest"},
}


def test_every_sweep_parameter_has_possible_values(tmp_path: Path) -> None:
    for parameter in SWEEP_PARAMETERS.values():
        if parameter.name == "memory_bytes":  # has values in presets that count bytes: tests/experiment
            continue
        made = _plan(tmp_path, parameter.name, overrides=NEEDED.get(parameter.name, {}))
        assert len(made.variants) >= 2, parameter.name
        assert not made.left_out


@pytest.mark.parametrize("name", ["mnist-5", "svhn-5", "cifar100-10", "imagenet100-10"])
def test_the_preset_is_among_the_values(name: str) -> None:
    settings = resolve(name).settings
    for parameter in SWEEP_PARAMETERS.values():
        values = default_values(parameter, settings)
        assert len(set(values)) == len(values) >= 2
        assert parameter.name in ("p", "memory", "memory_bytes") or settings[parameter.name] in values
    flips = any("flip" in value for value in default_values(SWEEP_PARAMETERS["augment"], settings))
    assert flips == name.startswith(("cifar", "imagenet"))  # a mirrored digit is none


def test_a_value_of_the_preset_that_is_not_in_the_list_is_put_in_its_place() -> None:
    assert default_values(SWEEP_PARAMETERS["beta"], {"beta": 0.7}) == (0, 0.5, 0.7, 1, 2)
    assert default_values(SWEEP_PARAMETERS["optimizer"], {"optimizer": "adamw"}) == ("adamw", "sgd", "adam", "radam")


def test_memory_is_counted_in_shares_of_the_preset(tmp_path: Path) -> None:
    assert [variant.value for variant in _plan(tmp_path, "memory").variants] == [100, 200, 400]
    made = _plan(tmp_path, "memory", "half", "100", "300", "100.0")
    assert [variant.value for variant in made.variants] == [100, 300]  # what is the same is run once


def test_parameters_that_are_read_after_training_need_one_run_per_seed(tmp_path: Path) -> None:
    for over in ("task_score", "adapt_steps", "flip_tta", "shift_tta", "p"):
        made = _plan(tmp_path, over, seeds=(0, 1))
        assert made.once
        assert _names(made) == ["itaml-best-seed0", "itaml-best-seed1"]
        assert len(made.variants) >= 2
    values = [variant.configs[0].settings["adapt_steps"] for variant in _plan(tmp_path, "adapt_steps").variants]
    assert values == [0, 1, 5, 10]


def test_a_learner_of_another_kind_is_trained_for_every_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS._entries, "own", Entry("own", f"{__name__}:Own", "for tests"))
    made = _plan(tmp_path, "adapt_steps", "0", "1", method="own")
    assert not made.once
    assert _names(made) == ["own-best-seed0", "own-best-adapt_steps=1-seed0"]
    assert _plan(tmp_path, "p", method="own").once


@pytest.mark.parametrize(
    ("over", "values", "rest", "kind", "words"),
    [
        ("betta", (), {}, UnknownNameError, "did you mean 'beta'? There are: p, inner_steps, beta"),
        (
            "zzz",
            (),
            {},
            UnknownNameError,
            "no parameter 'zzz'; there are: adapt_anchor, adapt_lda, ",
        ),
        ("beta", ("1", "-1"), {}, SettingsError, "beta=-1: setting beta: must be greater than or equal to 0"),
        ("selection", ("best",), {}, SettingsError, "selection=best: setting selection"),
        ("backbone", ("mpl",), {}, UnknownNameError, "backbone=mpl: no backbone 'mpl'; did you mean 'mlp'"),
        ("distill", ("1",), {"preset": "paper"}, SettingsError, "distill=1: distill"),
        ("inner_steps", ("1",), {"method": "replay"}, UnknownNameError, "replay has no setting 'inner_steps' to vary"),
        ("selection", (), {"method": "ewc"}, UsageError, "ewc keeps no exemplars"),
        ("beta", ("1",), {"overrides": {"beta": 2}}, UsageError, "--set beta and --over beta"),
        ("p", ("0",), {}, UsageError, "p=0: a continuum has a whole number of samples"),
        ("p", ("few",), {}, UsageError, "p=few: a continuum"),
        ("beta", (), {"seeds": ()}, UsageError, "at least one value and one seed"),
        ("beta", (), {"method": "itmal"}, UnknownNameError, "did you mean 'itaml'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    over: str, values: tuple[str, ...], rest: dict[str, Any], kind: type[ItamlError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        _plan(tmp_path, over, *values, **rest)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_values_that_nobody_named_are_left_out_where_they_are_impossible(tmp_path: Path) -> None:
    made = _plan(tmp_path, "task_score", method="ewc")
    assert [variant.value for variant in made.variants] == ["max-logit", "log-posterior"]
    assert len(made.left_out) == 1
    assert made.left_out[0].startswith("task_score=calibrated: ")
    with pytest.raises(SettingsError, match="task_score=calibrated"):
        _plan(tmp_path, "task_score", "calibrated", method="ewc")


@pytest.mark.usefixtures("small_benchmarks")
def test_what_the_data_makes_impossible_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small: dict[str, Any] = {"benchmark": "small", "overrides": {"epochs": 1}}
    with pytest.raises(SettingsError, match="memory=3: a memory of 3 images is smaller than the 4 classes"):
        check(_plan(tmp_path, "memory", "8", "3", **small))
    with pytest.raises(UnknownNameError, match="optimizer=adm: no optimizer 'adm'; did you mean 'adam'"):
        check(_plan(tmp_path, "optimizer", "adm", **small))
    monkeypatch.setitem(BENCHMARKS, "small", replace(BENCHMARKS["small"], memory=6))
    fewer = check(_plan(tmp_path, "memory", **small))
    assert [variant.value for variant in fewer.variants] == [6, 12]
    assert fewer.left_out == ("memory=3: a memory of 3 images is smaller than the 4 classes to remember",)
    with pytest.raises(SettingsError, match=r"^a memory of 3 images"):  # not the fault of any value of the parameter
        check(_plan(tmp_path, "task_score", benchmark="small", overrides={"memory": 3}))
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("small_benchmarks")
def test_finished_runs_are_kept_and_need_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, Any] = {"benchmark": "small", "overrides": {"epochs": 1}}
    made = _plan(tmp_path, "beta", "0", "1", **small)
    assert [job.state for job in made.jobs] == [WAITING, WAITING]
    for job in made.jobs:
        run_experiment(job.config, job.folder)
    again = _plan(tmp_path, "beta", "0", "1", **small)
    assert [job.state for job in again.jobs] == [KEPT, KEPT]
    monkeypatch.setattr("itaml.experiment.sweep.ablate.make_stream", lambda *_, **__: pytest.fail("the data was read"))
    assert check(again) == again
    assert [job.state for job in _plan(tmp_path, "beta", "0", "1", force=True, **small).jobs] == [WAITING, WAITING]


@pytest.mark.usefixtures("small_benchmarks")
def test_one_learner_measured_with_other_settings_is_the_learner_trained_with_them(tmp_path: Path) -> None:
    """The reason why these parameters need no training: to the bit, the same weights and the same numbers."""
    chosen: dict[str, Any] = {"adapt_lr": 0.5, "adapt_guard": False}
    first, other = short(task_score="max-logit", **chosen), short(task_score="calibrated", adapt_steps=9, **chosen)
    before = run_experiment(first, tmp_path / "first").final
    trained = run_experiment(other, tmp_path / "other").final
    assert same_bits(checkpoint(tmp_path / "first")["learner"], checkpoint(tmp_path / "other")["learner"])
    measures = Reevaluator()(tmp_path / "first", other, keep=tmp_path / "kept.json")
    assert measures.task_aware == trained.task_aware != before.task_aware
    assert (measures.curve, measures.no_update) == (trained.curve, trained.no_update)
    assert measures.curve != before.curve


@pytest.mark.slow
@pytest.mark.usefixtures("small_benchmarks")
@pytest.mark.parametrize("method", [m for m in LEARNERS.names() if LEARNERS.load(m).traits.trains_gradients])
def test_no_method_reads_these_parameters_in_training(method: str, tmp_path: Path) -> None:
    remembers = LEARNERS.load(method).traits.uses_memory
    memory: dict[str, Any] = {"memory": 40} if remembers else {}
    steps: dict[str, Any] = {"task_score": "log-posterior"}
    if remembers and method != "icarl":  # which has no head to adapt
        steps["adapt_steps"] = 3
    if method != "icarl" and "flip_tta" not in LEARNERS.load(method).traits.read_in_training:
        steps |= {"flip_tta": True, "shift_tta": 1}
    for name, chosen in (("one", {"task_score": "max-logit"}), ("other", steps)):
        run_experiment(resolve("small", method=method, overrides={"epochs": 2, **memory, **chosen}), tmp_path / name)
    assert same_bits(*(checkpoint(tmp_path / name)["learner"] for name in ("one", "other")))


@pytest.mark.usefixtures("small_benchmarks")
def test_other_continua_are_measured_beside_those_of_every_run(tmp_path: Path) -> None:
    config = short()
    final = run_experiment(config, tmp_path / "run").final
    measures = Reevaluator()(tmp_path / "run", config, sizes=[4, 7], keep=tmp_path / "kept.json")
    assert set(measures.curve) == {4, 7, *final.curve} == {3, 4, 7, *CURVE}
    assert {p: row for p, row in measures.curve.items() if p in final.curve} == final.curve


@pytest.mark.usefixtures("small_benchmarks")
def test_a_measurement_is_kept_until_its_settings_or_the_checkpoint_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, keep = short(), tmp_path / "kept.json"
    run_experiment(config, tmp_path / "run")
    count = 0

    def counted(*things: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        return evaluate(*things, **more)

    monkeypatch.setattr("itaml.experiment.reevaluate.evaluate", counted)

    def ask(changed: Any = config, **more: Any) -> int:
        Reevaluator(force=more.pop("force", False))(tmp_path / "run", changed, keep=keep, **more)
        return count

    assert [ask(), ask(), ask(force=True)] == [1, 1, 2]
    assert [ask(sizes=[4]), ask(), ask(sizes=[4])] == [3, 3, 3]
    assert ask(short(task_score="max-logit")) == 4
    keep.write_text(json.dumps({"format": 1})[:-3], encoding="utf-8")
    assert ask() == 5
    run_experiment(short(seeds__init=5), tmp_path / "run", force=True)
    assert ask() == 6
    (tmp_path / "run" / CHECKPOINT).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        ask()
