"""The tables that `itaml run` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = (
    "task",
    "classes",
    "class p=1",
    "class p={p}",
    "task p=1",
    "task p={p}",
    "task-aware",
    "no update",
    "seconds",
)


def percent(value: float | None) -> str:
    """Return a fraction as per cent, a dash where there is none."""
    return "-" if value is None else f"{100 * value:.2f}"


def header(p: int) -> str:
    """Return the head of the table that grows by a row a task."""
    return "  ".join(_names(p))


def _names(p: int) -> list[str]:
    return [name.format(p=p).rjust(7) for name in COLUMNS]


def task_line(row: Mapping[str, Any], p: int) -> str:
    """Return one row: after learning this task, accuracies in per cent on everything seen so far."""
    single, many = row["continuum"]["1"], row["continuum"][str(p)]
    cells = [
        str(row["index"] + 1),
        f"+{len(row['classes'])}",
        percent(single["class"]),
        percent(many["class"]),
        percent(single["task"]),
        percent(many["task"]),
        percent(row["task_aware"]),
        percent(row["no_update"]),
        f"{row['train_seconds']:.1f}",
    ]
    return "  ".join(cell.rjust(len(name)) for cell, name in zip(cells, _names(p), strict=True))


def final_lines(result: Mapping[str, Any], p: int) -> list[str]:
    """Return the final table: every number with its protocol in words."""
    final = result["final"]
    single, many = final["continuum"]["1"], final["continuum"][str(p)]
    rows = [
        (percent(single["class"]), "class accuracy, p=1", "each picture alone, nothing known about it"),
        (percent(many["class"]), f"class accuracy, p={p}", f"{p} pictures of one unknown task together"),
        (percent(single["task"]), "task found, p=1", "share of single pictures whose task is found"),
        (percent(many["task"]), f"task found, p={p}", f"share of pictures whose group of {p} is given its task"),
        (percent(final["task_aware"]), "task-aware", "class accuracy when the task is told"),
        (percent(final["no_update"]), "no update", "generic model alone: arg-max over all classes, no adaptation"),
        (
            percent(final["average_incremental"]["1"]),
            "average, p=1",
            "class accuracy at p=1, mean over all tasks' ends",
        ),
        (percent(final["average_incremental"][str(p)]), f"average, p={p}", f"the same at p={p}"),
        (percent(final["forgetting"]), "forgetting, p=1", "mean loss of old tasks since their best"),
    ]
    width = max(len(row[1]) for row in rows)
    return [f"{value:>7} %  {name.ljust(width)}  {meaning}" for value, name, meaning in rows]
