"""The table of an ablation: one row per value of the sweep parameter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from itaml.experiment.sweep.ablate import Plan
from itaml.experiment.sweep.ablation_numbers import CLASS, PREDICTED, SECONDS, TASK, Level, Measured
from itaml.experiment.sweep.parameters import CONTINUUM, format_value
from itaml.report.summary import Stat
from itaml.report.table import Column, Table, TableRow, columns, leads


def stat(level: Level, name: str) -> Stat | None:
    """Return the statistics of a number over the seeds."""
    return Stat.of(numbers[name] for numbers in level.numbers)


@dataclass(frozen=True)
class Ablation:
    """What was measured, as a table."""

    measured: Measured

    @property
    def plan(self) -> Plan:
        """What was compared."""
        return self.measured.plan

    @property
    def levels(self) -> tuple[Level, ...]:
        """The values with their numbers."""
        return self.measured.levels

    @property
    def p(self) -> int:
        """The size of continua, besides 1."""
        return max(self.plan.plain.p)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the table shows."""
        if self.plan.parameter.name == CONTINUUM:
            return (Column(TASK, 0), Column(PREDICTED, 0), Column(CLASS, 0))
        more = ["task p=1"] if self.plan.once else ["average p=1", "forgetting"]
        wanted = ["class p=1", f"class p={self.p}", f"task p={self.p}", "task-aware", *more]
        found = {column.name: column for column in columns(self.p)}
        chosen = tuple(found[name] for name in dict.fromkeys(wanted))
        return chosen if self.plan.once else (*chosen, Column(SECONDS, 0, 1.0, 1))

    @cached_property
    def table(self) -> Table:
        """One row per value, with means and standard deviations over seeds."""
        cells = [{column.name: stat(level, column.name) for column in self.columns} for level in self.levels]
        best = leads(self.columns, cells)
        rows = tuple(
            TableRow(level.label, len(level.seeds), row, {}, won)
            for level, row, won in zip(self.levels, cells, best, strict=True)
        )
        name = self.plan.parameter.name
        return Table(self.plan.plain.benchmark, self.columns, rows, subject=name, remarks=tuple(_remarks(self.plan)))


def _remarks(plan: Plan) -> list[str]:
    """Describe what the values were compared within."""
    plain, name = plan.plain, plan.parameter.name
    changed = "".join(f", {key}={format_value(value)}" for key, value in plan.overrides.items())
    within = f"{plain.method} ({plain.preset}{changed}) on {plain.benchmark}"
    if name == CONTINUUM:
        return [
            f"{within}: p samples of one unknown task arrive together; task and class are what is then predicted.",
            "Alg. 4 is the task accuracy that the paper's Algorithm 4 predicts from the class accuracy at p=1.",
        ]
    own = f"{name}={format_value(plain.settings[name])}"
    if plan.once:
        return [f"{within}, trained once per seed, with {own}: all rows are about the same weights."]
    return [f"{within}; the preset has {own}."]
