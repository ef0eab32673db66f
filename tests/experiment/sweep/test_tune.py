"""Tuning: search spaces, test images that are never read, studies that go on, the preset that is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from itaml.cli.main import main
from itaml.config import load_preset
from itaml.data.benchmarks import BENCHMARKS, Benchmark
from itaml.data.images import ImageSet, Shape
from itaml.data.stream import Dataset
from itaml.errors import MissingExtraError, SettingsError, TrainingError, UnknownNameError
from itaml.experiment.run_config import default_folder, resolve
from itaml.experiment.runner import run_experiment
from itaml.experiment.sweep.job import DONE, FAILED, STOPPED, WAITING, Job
from itaml.experiment.sweep.search_space import inside, parse_space
from itaml.experiment.sweep.tune import Tuner, TuneSpec
from itaml.experiment.sweep.tuned_preset import write_preset

SPACE = parse_space(["lr=loguniform(1e-3,1)", "batch_size=choice(16,32)"])


class Untouchable:
    """Pixels that must not be read."""

    shape: Shape = (1, 4, 4)

    def __len__(self) -> int:
        return 40

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        raise AssertionError("test images were read")


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a benchmark of four easy classes whose test images fail when they are read."""
    labels = torch.arange(4).repeat(10)
    noise = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    images = (0.1 * noise + labels.view(-1, 1, 1, 1) / 4).float()
    test = ImageSet(Untouchable(), labels, torch.arange(40))
    data = Dataset("guarded", ("a", "b", "c", "d"), ImageSet.from_arrays(images, labels), test)
    entry = Benchmark("guarded", "four easy classes", "", tasks=2, model="mlp", memory=8, p=2)
    monkeypatch.setitem(BENCHMARKS, "guarded", entry)
    monkeypatch.setattr(Benchmark, "load", lambda self, options: data)
    return "guarded"


def _spec(benchmark: str = "digits", **changes: Any) -> TuneSpec:
    spec = TuneSpec(benchmark, "replay", "best", SPACE, "class_p1", (0, 1), 0.2, {"epochs": 1})
    return replace(spec, **changes)


def _judged(monkeypatch: pytest.MonkeyPatch, value: Callable[[Job], float]) -> None:
    """Let runs have results that a function computes, instead of those of training."""
    monkeypatch.setattr(Tuner, "_values", lambda self, jobs: [value(job) for job in jobs])


def _finish(tuner: Tuner) -> None:
    while tuner.more():
        for job in tuner.jobs:
            if job.state == WAITING:
                job.state = DONE


def _lr(job: Job) -> float:
    return -abs(cast(float, job.config.settings["lr"]) - 0.3)


def test_distributions_are_read_as_they_are_written() -> None:
    space = parse_space(["a=uniform(0,2)", "b=int(1,3)", "c=logint(1,8)", "d=choice(sgd,adam)", "e = choice(true,0.5)"])
    assert [(d.name, d.kind, d.values) for d in space] == [
        ("a", "uniform", (0.0, 2.0)),
        ("b", "int", (1, 3)),
        ("c", "logint", (1, 8)),
        ("d", "choice", ("sgd", "adam")),
        ("e", "choice", (True, 0.5)),
    ]
    assert space[0].rounded(0.123456) == 0.1235
    assert parse_space(["a=uniform(0,0.12341)"])[0].rounded(0.123409) == 0.1234
    assert inside(space[:2], {"a": 1.5, "b": 3, "z": 0}) == {"a": 1.5, "b": 3}
    assert inside(space[:2], {"a": 1.5, "b": 4}) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr", "--over takes NAME="),
        ("lr=normal(0,1)", "no distribution 'normal'"),
        ("lr=uniform(1)", "needs two numbers, the smaller first"),
        ("lr=uniform(2,1)", "needs two numbers, the smaller first"),
        ("lr=uniform(a,b)", "needs two numbers"),
        ("lr=loguniform(0,1)", "needs numbers above 0"),
        ("epochs=int(1.5,3)", "needs whole numbers"),
        ("lr=choice(1)", "at least two different values"),
        ("lr=choice(1,1)", "at least two different values"),
    ],
)
def test_distributions_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_space([text])


def test_a_space_is_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing to tune"):
        parse_space([])
    with pytest.raises(SettingsError, match="--over lr is given twice"):
        parse_space(["lr=uniform(0,1)", "lr=uniform(0,1)"])
    with pytest.raises(UnknownNameError, match="no setting 'lrr'"):
        Tuner(_spec(space=parse_space(["lrr=uniform(0,1)"])), tmp_path, trials=1)
    with pytest.raises(SettingsError, match="setting lr"):
        Tuner(_spec(space=parse_space(["lr=uniform(-1,1)"])), tmp_path, trials=1)
    with pytest.raises(UnknownNameError, match="no objective 'class_p'"):
        Tuner(_spec(objective="class_p"), tmp_path, trials=1)
    assert not list(tmp_path.iterdir())


def test_test_images_are_never_read(guarded: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    tuner = Tuner(_spec(guarded, seeds=(0,)), tmp_path, trials=2)
    while tuner.more():
        for job in tuner.jobs:
            if job.state == WAITING:
                result = run_experiment(job.config, job.folder)
                assert result.evaluated_on == "0.2 of the training data"
                job.state = DONE
    assert [record["state"] for record in tuner.records()] == ["complete", "complete"]
    assert 0 <= tuner.best()["value"] <= 1
    with pytest.raises(AssertionError, match="test images were read"):  # which an ordinary run does
        run_experiment(resolve(guarded, method="replay", overrides={"epochs": 1}), tmp_path / "plain")


def test_the_preset_is_tried_first_and_the_best_trial_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    _judged(monkeypatch, _lr)
    tuner = Tuner(_spec(), tmp_path, trials=12)
    _finish(tuner)
    records = tuner.records()
    assert [record["trial"] for record in records] == list(range(12))
    own = load_preset("replay", "best", benchmark="digits")
    assert records[0]["settings"]["lr"] == own["lr"]
    assert tuner.best()["value"] == max(record["value"] for record in records)
    assert tuner.best()["settings"]["lr"] == pytest.approx(0.3, abs=0.15)
    assert all(record["settings"]["batch_size"] in (16, 32) for record in records)
    assert len(tuner.jobs) == 24  # two seeds each
    assert {job.config.validation for job in tuner.jobs} == {0.2}


def test_an_interrupted_study_goes_on_to_the_same_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    _judged(monkeypatch, _lr)
    whole = Tuner(_spec(), tmp_path / "whole", trials=8)
    _finish(whole)
    first = Tuner(_spec(), tmp_path / "parts", trials=5)
    _finish(first)
    first.trials = 8
    assert first.more()  # the sixth trial is under way when the command is stopped
    for job in first.jobs[-2:]:
        job.state = STOPPED
    assert not first.more()
    again = Tuner(_spec(), tmp_path / "parts", trials=8)
    _finish(again)
    points = [[record["settings"] for record in tuner.records()] for tuner in (whole, again)]
    assert points[1][:6] == points[0][:6]
    assert len(points[1]) == 8
    assert len(again.jobs) == 6  # of the three trials that were missing
    forced = Tuner(_spec(), tmp_path / "parts", trials=1, force=True)
    assert forced.records() == []


def test_a_trial_that_fails_is_noted_and_the_others_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    _judged(monkeypatch, _lr)
    tuner = Tuner(_spec(), tmp_path, trials=2)
    assert tuner.more()
    for job in tuner.jobs:
        job.state, job.error = FAILED, "the loss is not a number"
    assert tuner.more()
    with pytest.raises(TrainingError, match="no trial was completed: the loss is not a number"):
        tuner.best()
    _finish(tuner)
    assert [(record["state"], record["error"]) for record in tuner.records()] == [
        ("fail", "the loss is not a number"),
        ("complete", ""),
    ]
    assert tuner.best()["trial"] == 1


def test_pruning_saves_the_other_seeds_of_a_bad_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    _judged(monkeypatch, lambda job: 0.0 if job.variant == "trial 7" else 1.0)
    tuner = Tuner(_spec(seeds=(0, 1, 2)), tmp_path, trials=9, prune=True)
    _finish(tuner)
    assert [record["state"] for record in tuner.records()] == ["complete"] * 7 + ["pruned", "complete"]
    assert [len(record["runs"]) for record in tuner.records()] == [3] * 7 + [1, 3]


def test_several_trials_are_under_way_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    _judged(monkeypatch, _lr)
    tuner = Tuner(_spec(), tmp_path, trials=5, at_once=3)
    assert tuner.more()
    assert len({job.variant for job in tuner.jobs}) == 3
    _finish(tuner)
    assert len(tuner.records()) == 5


def test_a_preset_file_is_read_by_every_command(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_preset(path, {"lr": 0.25, "milestones": [1, 2], "augment": "none", "clip": None}, ["Mine\nalone", "more"])
    assert path.read_text(encoding="utf-8").splitlines()[:2] == ["# Mine alone", "# more"]
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {"lr": 0.25, "milestones": [1, 2], "augment": "none"}
    config = resolve("digits", method="replay", preset=str(path))
    assert config.settings["lr"] == 0.25
    assert default_folder(config, tmp_path) == tmp_path / "digits" / "replay-mine.toml-seed0"
    for text, message in (("lr = ", "is not TOML"), ("lrr = 1", "no setting 'lrr'")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises((SettingsError, UnknownNameError), match=f"(?i){message}"):
            resolve("digits", method="replay", preset=str(path))
    with pytest.raises(SettingsError, match=r"preset .*none.toml: no such file"):
        resolve("digits", method="replay", preset=str(tmp_path / "none.toml"))


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"itaml\[tune\]"):
        Tuner(_spec(), tmp_path, trials=1)


def test_the_command_writes_a_preset_and_all_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    output = tmp_path / "tuned.toml"
    words = ["tune", "digits", "-m", "ncm", "--over", "memory=choice(20,200)", "--trials", "2", "--jobs", "1"]
    words += ["--runs", str(tmp_path / "runs"), "--output", str(output)]
    assert _main(*words, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["output"] == str(output)
    assert len(document["trials"]) == 2
    (trials,) = (tmp_path / "runs" / "digits").glob("tune-ncm-best-*/trials.json")
    assert json.loads(trials.read_text(encoding="utf-8"))["best"] == document["best"]
    text = output.read_text(encoding="utf-8")
    assert text.startswith("# Tuned on a validation split of digits: class accuracy, p=1 ")
    assert tomllib.loads(text)["memory"] == document["best"]["settings"]["memory"]
    assert _main(*words) == 0  # nothing is run again
    said = capsys.readouterr()
    head, first = said.out.splitlines()[:2]
    assert head.split() == ["trial", "memory", "class", "p=1", "state"]
    assert "*" in first
    assert f"use them with --preset {output}" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to tune"),
        (("--over", "lr=uniform(0.1,1)", "--set", "lr=1"), "--set lr and --over lr contradict each other"),
        (("--over", "lr=uniform(0.1,1)", "--output", "a.json"), "the name of a preset file ends in .toml"),
        (("--over", "lr=uniform(0.1,1)", "--format", "csv"), "with --json as JSON"),
        (("--over", "lr=uniform(0.1,1)", "--seeds", ","), "at least one seed"),
        (("--over", "lr=uniform(0.1,1)", "--objective", "klass_p1"), "did you mean 'class_p1'"),
    ],
)
def test_wrong_words_end_with_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("tune", "digits", *words, "--runs", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def _main(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code
