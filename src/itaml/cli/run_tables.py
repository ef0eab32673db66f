"""The tables that `itaml run` prints: one row per task while it learns, and the final numbers with their protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from itaml.cli.tables import GrowingTable, table_text
from itaml.cli.words import percent

DIGITS = 2


class TaskTable:
    """The table that grows by one row per task: accuracies in per cent on all classes seen so far.

    Args:
        sizes: sizes of continua.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "task": lambda row: str(row["index"] + 1),
            "classes": lambda row: f"+{len(row['classes'])}",
            **{f"class p={p}": _at(p, "class") for p in sizes},
            **{f"task p={p}": _at(p, "task") for p in sizes},
            "task-aware": lambda row: percent(row["task_aware"], DIGITS),
            "no update": lambda row: percent(row["no_update"], DIGITS),
            "seconds": lambda row: f"{row['train_seconds']:.1f}",
        }
        self._table = GrowingTable(list(self.columns))

    def header(self) -> str:
        """Return the line of names."""
        return self._table.header()

    def line(self, row: Mapping[str, Any]) -> str:
        """Return the line of one row of `result.json`."""
        return self._table.line([value(row) for value in self.columns.values()])


def _at(p: int, part: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: percent(row["continuum"][str(p)][part], DIGITS)


def final_text(result: Mapping[str, Any], sizes: Sequence[int]) -> str:
    """Return the final table: every number with its protocol in words."""
    final, rows = result["final"], []
    for p in sizes:
        what = "each image alone" if p == 1 else f"{p} images of one unknown task together"
        rows.append((final["continuum"][str(p)]["class"], f"class accuracy, p={p}", what))
    for p in sizes:
        what = "of single images" if p == 1 else f"of groups of {p} images"
        rows.append((final["continuum"][str(p)]["task"], f"task accuracy, p={p}", f"share {what} whose task is found"))
    rows.append((final["task_aware"], "task-aware", "class accuracy when the task is given"))
    rows.append((final["no_update"], "no update", "generic model alone: arg-max over all classes, no adaptation"))
    for p in sizes:
        what = "class accuracy, mean over the evaluations after each task"
        rows.append((final["average_incremental"][str(p)], f"average, p={p}", what))
    what = f"mean loss of old tasks since their best, p={1 if 1 in sizes else max(sizes)}"
    rows.append((final["forgetting"], "forgetting", what))
    return table_text([], [(f"{percent(value, DIGITS)} %", name, what) for value, name, what in rows], align="rll")
