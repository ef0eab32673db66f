"""The registry of metrics: each is declared once, and tables, loggers, pages, the command line and documents iterate.

To add a metric, write the function that computes it and an entry of `ENTRIES`. It may use what a result holds, have a
number of its own measured in every evaluation (`measure`), or on each task before it is learned (`before_task`); what
is measured is kept in `measures` of each task's row, under the metric's key.

Importing this module imports no torch: functions that measure are named by import path, and imported when used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Literal

from itaml.metrics.matrix import backward_transfer
from itaml.metrics.metric import MEGABYTES, PERCENT, SECONDS, Metric, Numbers


def _class(p: int) -> Metric:
    def number(numbers: Numbers) -> float | None:
        return numbers.continuum[p].classes if p in numbers.continuum else None

    together = "each image alone" if p == 1 else f"when {p} images of one unknown task come together"
    return Metric(
        name=f"class p={p}",
        key=f"class_p{p}",
        title=f"class accuracy, p={p}",
        meaning=f"share of test images whose class is right, {together}",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: number(run.final),
        after_task=number,
        plotted=True,
    )


def _task(p: int) -> Metric:
    def number(numbers: Numbers) -> float | None:
        return numbers.continuum[p].task if p in numbers.continuum else None

    together = "each image alone" if p == 1 else f"when {p} images of one unknown task come together"
    return Metric(
        name=f"task p={p}",
        key=f"task_p{p}",
        title=f"task accuracy, p={p}",
        meaning=f"share of test images whose task is found, {together}",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: number(run.final),
        after_task=number,
    )


def _average(p: int) -> Metric:
    return Metric(
        name=f"average p={p}",
        key=f"average_incremental_p{p}",
        title=f"average accuracy, p={p}",
        meaning=f"class accuracy at p={p} on everything seen so far, mean over the ends of all tasks",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: run.final.average_incremental.get(p),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


Entry = Metric | Callable[[int], Metric]  # one metric, or one for each size of continua
ENTRIES: tuple[Entry, ...] = (
    _class,
    _task,
    Metric(
        name="task-aware",
        key="task_aware",
        title="task-aware",
        meaning="class accuracy when the task is given",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: run.final.task_aware,
        after_task=lambda row: row.task_aware,
        plotted=True,
    ),
    Metric(
        name="no update",
        key="no_update",
        title="no update",
        meaning="class accuracy of the generic model alone: arg-max over all classes, no adaptation",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: run.final.no_update,
        after_task=lambda row: row.no_update,
        plotted=True,
    ),
    _average,
    Metric(
        name="forgetting",
        key="forgetting",
        title="forgetting, p=1",
        meaning="class accuracy that old tasks lost since their best, mean over old tasks",
        direction="lower",
        format=PERCENT,
        value_of=lambda run: run.final.forgetting,
    ),
    Metric(
        name="backward transfer",
        key="backward_transfer",
        title="backward transfer, p=1",
        meaning="class accuracy of old tasks at the end minus right after each was learned, mean over old tasks",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: backward_transfer(run.accuracy_matrix),
    ),
    Metric(
        name="forward transfer",
        key="forward_transfer",
        title="forward transfer",
        meaning="nearest-class-mean accuracy in the features before a task is learned minus that at initialisation",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: _mean(row.measures.get("forward_transfer") for row in run.tasks[1:]),
        before_task="itaml.metrics.nearest_mean:nearest_mean_accuracy",
    ),
    Metric(
        name="ECE p=1",
        key="ece_p1",
        title="calibration error, p=1",
        meaning="expected calibration error: probability of the predicted class against how often it is right",
        direction="lower",
        format=PERCENT,
        value_of=lambda run: run.tasks[-1].measures.get("ece_p1"),
        after_task=lambda row: row.measures.get("ece_p1"),
        measure="itaml.metrics.calibration_error:calibration_error",
    ),
    Metric(
        name="MB",
        key="peak_memory_mb",
        title="peak memory",
        meaning="largest resident memory of the process",
        direction="neither",
        format=MEGABYTES,
        value_of=lambda run: max((row.peak_memory_mb for row in run.tasks if row.peak_memory_mb), default=None),
        after_task=lambda row: row.peak_memory_mb,
    ),
    Metric(
        name="s/task",
        key="train_seconds",
        title="training time",
        meaning="seconds of training, mean over tasks",
        direction="neither",
        format=SECONDS,
        value_of=lambda run: sum(row.train_seconds for row in run.tasks) / len(run.tasks),
        after_task=lambda row: row.train_seconds,
    ),
)


def metrics(sizes: Iterable[int]) -> tuple[Metric, ...]:
    """Return all metrics, in the order in which they are shown, for continua of the given sizes."""
    ordered = sorted(set(sizes))
    found: list[Metric] = []
    for entry in ENTRIES:
        found += [entry] if isinstance(entry, Metric) else [entry(p) for p in ordered]
    return tuple(found)


def measured(kind: Literal["measure", "before_task"]) -> dict[str, Callable[..., float | None]]:
    """Return the functions that measure numbers of their own, by the keys of their metrics."""
    entries = (entry for entry in ENTRIES if isinstance(entry, Metric) and getattr(entry, kind))
    return {entry.key: _load(getattr(entry, kind)) for entry in entries}


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
