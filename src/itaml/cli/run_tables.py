"""The tables that `itaml run` prints: one row per task while it learns, and every metric at the end."""

from __future__ import annotations

from collections.abc import Sequence

from itaml.cli.tables import GrowingTable, table_text
from itaml.experiment.result import Result, TaskRow
from itaml.metrics.metric_registry import metrics


class AccuracyTable:
    """The table that grows by one row per task: the metrics that are known after each task.

    Args:
        sizes: sizes of continua.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.metrics = [metric for metric in metrics(sizes) if metric.after_task is not None]
        self._table = GrowingTable(["task", "classes", *(metric.name for metric in self.metrics)])

    def header(self) -> str:
        """Return the line of names."""
        return self._table.header()

    def line(self, row: TaskRow) -> str:
        """Return the line of one task."""
        numbers = (metric.format.text(metric.after(row)) for metric in self.metrics)
        return self._table.line([str(row.index + 1), f"+{len(row.classes)}", *numbers])


def final_text(result: Result, sizes: Sequence[int]) -> str:
    """Return the final table: every metric that has a value, with its meaning."""
    rows = []
    for metric in metrics(sizes):
        value = metric.value_of(result)
        if value is not None:
            rows.append((f"{metric.format.text(value)} {metric.format.unit}", metric.title, metric.meaning))
    return table_text([], rows, align="rll")
