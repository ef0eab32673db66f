"""Loggers: copies of the event log for other programs (CSV, TensorBoard, MLflow).

Each is a callback that writes the numbers of `scalars` into the run's folder (MLflow: to what `MLFLOW_TRACKING_URI`
names, if it is set, and else to `mlflow.db`). A resumed run continues in the same place.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from itaml.errors import MissingExtraError, UnknownNameError
from itaml.events import EpochDone, Event
from itaml.experiment.event_log import RunDone, RunStarted, TaskDone
from itaml.experiment.run_config import RunConfig
from itaml.metrics.metric_registry import metrics
from itaml.registry import unknown

Scalar = tuple[str, float, int]  # name, value, step


def scalars(event: Event) -> list[Scalar]:
    """Return the numbers of an event: training by epochs since the run began, accuracies by tasks learned."""
    if isinstance(event, EpochDone):
        rate = event.images / event.seconds if event.seconds else 0.0
        training = {"loss": event.loss, "lr": event.lr, "images_per_second": rate}
        return [(f"train/{name}", value, event.step) for name, value in training.items()]
    if isinstance(event, TaskDone):
        after = {metric.key: metric.after(event.row) for metric in metrics(event.row.continuum)}
        return [(f"task/{name}", value, event.task + 1) for name, value in after.items() if value is not None]
    if isinstance(event, RunDone):
        return [(f"final/{name}", value, 0) for name, value in event.final.metrics.items() if value is not None]
    return []


class EventLogger(Protocol):
    """A callback that has to be closed."""

    def __call__(self, event: Event) -> None:
        """Take an event."""

    def close(self) -> None:
        """Write what is still buffered."""


class CsvLogger:
    """`metrics.csv`: one row per number, in columns time, name, step, value."""

    def __init__(self, config: RunConfig, folder: Path | str) -> None:
        self.path = Path(folder) / "metrics.csv"

    def __call__(self, event: Event) -> None:
        """Append the event's numbers; a run that starts again starts a new file."""
        rows = [(round(time.time(), 3), name, step, value) for name, value, step in scalars(event)]
        fresh = isinstance(event, RunStarted) and not event.resumed
        if not rows and not fresh:
            return
        exists = self.path.exists() and not fresh
        with self.path.open("a" if exists else "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([("time", "name", "step", "value"), *rows] if not exists else rows)

    def close(self) -> None:
        """Nothing is buffered."""


class TensorBoardLogger:
    """`tensorboard/` in the run's folder; the extra `tensorboard`."""

    def __init__(self, config: RunConfig, folder: Path | str) -> None:
        writers = _extra("torch.utils.tensorboard", "tensorboard")
        self._open: Callable[[], Any] = lambda: writers.SummaryWriter(str(Path(folder) / "tensorboard"))
        self._writer: Any = None  # opened with the first number, when the run's folder is there

    def __call__(self, event: Event) -> None:
        """Write the event's numbers."""
        for name, value, step in scalars(event):
            if self._writer is None:
                self._writer = self._open()
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is buffered."""
        if self._writer is not None:
            self._writer.close()


class MlflowLogger:
    """A run of MLflow in the experiment `itaml`, with the settings as parameters; the extra `mlflow`."""

    def __init__(self, config: RunConfig, folder: Path | str) -> None:
        mlflow, folder = _extra("mlflow", "mlflow"), Path(folder)
        where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(folder / 'mlflow.db').absolute()}"
        self._connect: Callable[[], Any] = lambda: mlflow.MlflowClient(tracking_uri=where)
        self._note = folder / "mlflow_run.txt"  # which run of MLflow this is, for when it is resumed
        self._config = config
        self._client: Any = None
        self._run = ""

    def __call__(self, event: Event) -> None:
        """Write the event's numbers; the run ends with `RunDone`."""
        if isinstance(event, RunStarted):
            self._begin(resumed=event.resumed)
        for name, value, step in scalars(event):
            self._client.log_metric(self._run, name, value, step=step)
        if isinstance(event, RunDone):
            self._client.set_terminated(self._run)

    def _begin(self, *, resumed: bool) -> None:
        self._client = self._connect()
        if resumed and self._note.is_file():
            self._run = self._note.read_text(encoding="utf-8").strip()
            return
        found = self._client.get_experiment_by_name("itaml")
        experiment = found.experiment_id if found else self._client.create_experiment("itaml")
        config = self._config
        name = f"{config.benchmark}-{config.method}-{config.preset}-seed{config.seed}"
        self._run = self._client.create_run(experiment, run_name=name).info.run_id
        parameters = {
            "benchmark": config.benchmark,
            "method": config.method,
            "preset": config.preset,
            "seed": config.seed,
        }
        for key, value in (parameters | config.settings).items():
            self._client.log_param(self._run, key, value)
        self._note.write_text(self._run + "\n", encoding="utf-8")

    def close(self) -> None:
        """Nothing is buffered."""


LOGGERS: dict[str, Callable[[RunConfig, Path | str], EventLogger]] = {
    "csv": CsvLogger,
    "tensorboard": TensorBoardLogger,
    "mlflow": MlflowLogger,
}


@contextmanager
def open_loggers(names: list[str], config: RunConfig, folder: Path | str) -> Iterator[list[EventLogger]]:
    """Open loggers by name, before anything is run, and close them at the end.

    Raises:
        UnknownNameError: there is no such logger.
        MissingExtraError: a logger's package is not installed; the message names the extra.
    """
    for name in names:
        if name not in LOGGERS:
            raise UnknownNameError(unknown("log", name, LOGGERS))
    opened = [LOGGERS[name](config, folder) for name in dict.fromkeys(names)]
    try:
        yield opened
    finally:
        for logger in opened:
            logger.close()


def _extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"--log {extra} needs a package more: pip install 'itaml[{extra}]'") from error
