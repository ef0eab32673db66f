"""Loggers of the numbers: what was written is read back, by the programs it was written for."""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from experiment_support import short
from handmade import final, task_row
from itaml.errors import InterruptedRunError, MissingExtraError, UnknownNameError
from itaml.events import BatchDone, EpochDone, Event, TaskStarted
from itaml.experiment.event_log import RunDone, RunStarted, TaskDone
from itaml.experiment.loggers import open_loggers, scalars
from itaml.experiment.run_config import RunConfig, resolve
from itaml.experiment.runner import run_experiment

ROW = task_row(continuum={"1": {"class": 0.8, "task": 0.9}, "20": {"class": 0.95, "task": None}}, no_update=None)
FINAL = final(metrics={"forgetting": -0.1, "average_incremental_p1": 0.9, "task_p20": None})
EVENTS: list[Event] = [
    RunStarted("digits", "itaml", "best", 0, 2, resumed=False),
    TaskStarted(0, ("a",), 10, 0, 2),
    BatchDone(0, 0, 2, 5, 10, 0.1),
    EpochDone(task=0, epoch=1, epochs=2, loss=0.5, images=10, seconds=0.5, lr=0.1, step=1),
    EpochDone(task=0, epoch=2, epochs=2, loss=0.25, images=10, seconds=0.5, lr=0.1, step=2),
    TaskDone(0, ROW),
    EpochDone(task=1, epoch=1, epochs=1, loss=0.75, images=10, seconds=0.5, lr=0.1, step=3),
    RunDone(FINAL),
]
LOSSES = [(1, 0.5), (2, 0.25), (3, 0.75)]


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return resolve("digits")


def _write(names: list[str], config: RunConfig, folder: Path, events: list[Event] | None = None) -> None:
    folder.mkdir(exist_ok=True)
    with open_loggers(names, config, folder) as opened:
        for event in EVENTS if events is None else events:
            for logger in opened:
                logger(event)


def test_numbers_have_names_and_steps_and_what_is_not_known_has_none() -> None:
    names = {name: (value, step) for event in EVENTS for name, value, step in scalars(event)}
    assert names["train/images_per_second"] == (20.0, 3)
    assert names["task/class_p20"] == (0.95, 1)
    assert "task/task_p20" not in names
    assert "task/no_update" not in names
    assert "final/task_p20" not in names
    assert names["task/train_seconds"] == (2.0, 1)
    assert names["final/forgetting"] == (-0.1, 0)
    assert names["final/average_incremental_p1"] == (0.9, 0)


def test_csv_is_read_back(tmp_path: Path, config: RunConfig) -> None:
    _write(["csv", "csv"], config, tmp_path / "run")
    with (tmp_path / "run" / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(int(r["step"]), float(r["value"])) for r in rows if r["name"] == "train/loss"] == LOSSES
    assert sum(r["name"] == "task/task_aware" for r in rows) == 1


def test_csv_goes_on_when_a_run_is_resumed_and_starts_again_when_it_does(tmp_path: Path, config: RunConfig) -> None:
    _write(["csv"], config, tmp_path, EVENTS[:4])
    _write(["csv"], config, tmp_path, [RunStarted("digits", "itaml", "best", 0, 2, resumed=True), EVENTS[4]])
    assert (tmp_path / "metrics.csv").read_text(encoding="utf-8").count("train/loss") == 2
    _write(["csv"], config, tmp_path, EVENTS[:4])
    text = (tmp_path / "metrics.csv").read_text(encoding="utf-8")
    assert (text.count("train/loss"), text.count("time,name")) == (1, 1)


@pytest.mark.filterwarnings("ignore")  # its own, about its own dependencies
def test_tensorboard_is_read_back(tmp_path: Path, config: RunConfig) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (the extra tensorboard)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _write(["tensorboard"], config, tmp_path / "run")
    reader = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    reader.Reload()
    assert [(point.step, point.value) for point in reader.Scalars("train/loss")] == LOSSES
    assert reader.Scalars("task/class_p1")[0].value == pytest.approx(0.8)


@pytest.mark.slow  # it makes a data base first
@pytest.mark.filterwarnings("ignore")
def test_mlflow_is_read_back(tmp_path: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed (the extra mlflow)")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _write(["mlflow"], config, folder, EVENTS[:5])
        _write(["mlflow"], config, folder, [RunStarted("digits", "itaml", "best", 0, 2, resumed=True), *EVENTS[5:]])
        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
        experiment = client.get_experiment_by_name("itaml")
        (run,) = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(point.step, point.value) for point in history] == LOSSES
    assert run.data.params["method"] == "itaml"
    assert run.data.metrics["final/forgetting"] == -0.1
    assert run.info.status == "FINISHED"


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")])
def test_a_missing_package_names_its_extra(
    name: str, module: str, tmp_path: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"itaml\[{name}\]"), open_loggers([name], config, tmp_path):
        pass


def test_a_mirror_that_does_not_exist_is_refused(tmp_path: Path, config: RunConfig) -> None:
    with (
        pytest.raises(UnknownNameError, match="did you mean 'tensorboard'"),
        open_loggers(["tensorbord"], config, tmp_path),
    ):
        pass


def steps_of(folder: Path) -> list[int]:
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        return [int(row["step"]) for row in csv.DictReader(file) if row["name"] == "train/loss"]


def logged_run(config: RunConfig, folder: Path, **options: Any) -> None:
    with open_loggers(["csv"], config, folder) as opened:
        run_experiment(config, folder, callbacks=opened, **options)


@pytest.mark.usefixtures("small_benchmarks")
def test_steps_count_epochs_when_the_first_task_has_more_of_them(tmp_path: Path) -> None:
    logged_run(short(first_epochs=5, epochs=2), tmp_path)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.usefixtures("small_benchmarks")
@pytest.mark.parametrize("last", [3, 5, 6])
def test_steps_go_on_where_a_run_was_interrupted(tmp_path: Path, last: int) -> None:
    config = short(first_epochs=5, epochs=2)
    seen: list[Event] = []
    with pytest.raises(InterruptedRunError):
        logged_run(config, tmp_path, stop=lambda: steps_of(tmp_path)[-1:] == [last])
    with open_loggers(["csv"], config, tmp_path) as opened:
        run_experiment(config, tmp_path, callbacks=[*opened, seen.append], resume=True)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6, 7]
    assert [event.step for event in seen if isinstance(event, EpochDone)] == list(range(last + 1, 8))
