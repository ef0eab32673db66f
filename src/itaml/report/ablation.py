"""The numbers of an ablation: a row a value of the knob, means and deviations over seeds.

Where one trained learner serves all values, there is no average over tasks, no forgetting and no training time to
compare: the first two would need the learner as it was after every task, and the third is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from itaml.errors import CheckpointError, DataError
from itaml.metrics.metric import PERCENT
from itaml.metrics.registry import metrics
from itaml.report.summary import Stat
from itaml.report.table import Column, Row, Table, columns, leads
from itaml.run.ablate import Plan, Variant
from itaml.run.config import RunConfig
from itaml.run.knobs import CONTINUUM, word
from itaml.run.pool import DONE, KEPT
from itaml.run.remeasure import Measures, Remeasure
from itaml.run.result import Result, TaskRow, load_result

TASK, PREDICTED, CLASS = Column("task", 0), Column("task, Alg. 4", 0), Column("class", 0)
SECONDS = Column("training s", 0, 1.0, 1)
Numbers = Mapping[str, float | None]  # by the names of columns


@dataclass(frozen=True)
class Level:
    """A value of the knob, and its numbers for each seed."""

    value: Any
    seeds: tuple[int, ...]
    numbers: tuple[Numbers, ...]
    runs: tuple[Path, ...]  # whose weights they are

    @property
    def label(self) -> str:
        """The value as people write it."""
        return word(self.value)

    def stat(self, name: str) -> Stat | None:
        """Return the statistics of a number over the seeds."""
        return Stat.of(numbers[name] for numbers in self.numbers)


@dataclass(frozen=True)
class Ablation:
    """What was measured; `problems` says in sentences what could not be."""

    plan: Plan
    levels: tuple[Level, ...]
    environments: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]

    @property
    def p(self) -> int:
        """The size of continua, beside 1."""
        return max(self.plan.plain.p)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the table shows."""
        if self.plan.knob.name == CONTINUUM:
            return (TASK, PREDICTED, CLASS)
        more = ["task p=1"] if self.plan.once else ["average p=1", "forgetting"]
        wanted = ["class p=1", f"class p={self.p}", f"task p={self.p}", "task-aware", *more]
        found = {column.name: column for column in columns(self.p)}
        chosen = tuple(found[name] for name in dict.fromkeys(wanted))
        return chosen if self.plan.once else (*chosen, SECONDS)

    @cached_property
    def table(self) -> Table:
        """The table."""
        cells = [{column.name: level.stat(column.name) for column in self.columns} for level in self.levels]
        best = leads(self.columns, cells)
        rows = tuple(
            Row(level.label, len(level.seeds), row, {}, won)
            for level, row, won in zip(self.levels, cells, best, strict=True)
        )
        name = self.plan.knob.name
        return Table(self.plan.plain.benchmark, self.columns, rows, subject=name, remarks=tuple(_remarks(self.plan)))


def _remarks(plan: Plan) -> list[str]:
    """Say what the values were compared within."""
    plain, name = plan.plain, plan.knob.name
    changed = "".join(f", {key}={word(value)}" for key, value in plan.overrides.items())
    within = f"{plain.method} ({plain.preset}{changed}) on {plain.benchmark}"
    if name == CONTINUUM:
        return [
            f"{within}: p samples of one unknown task come together; task and class are what is then found.",
            "Alg. 4 is the task accuracy that the paper's Algorithm 4 predicts from the class accuracy at p=1.",
        ]
    own = f"{name}={word(plain.settings[name])}"
    if plan.once:
        return [f"{within}, trained once a seed, with {own}: all rows are about the same weights."]
    return [f"{within}; the preset has {own}."]


def measure(plan: Plan, *, keep: Path, remeasure: Remeasure) -> Ablation:
    """Read what was trained, and evaluate it with every value where that is all that a value needs.

    Args:
        plan: whose runs are over; those that failed are left out.
        keep: folder of evaluations.
        remeasure: evaluates.
    """
    reader = _Reader(plan, keep, remeasure)
    levels = [level for variant in plan.variants if (level := reader.level(variant)) is not None]
    return Ablation(plan, tuple(levels), tuple(reader.environments), tuple(dict.fromkeys(reader.problems)))


class _Reader:
    """Reads the numbers of values, and notes which versions they come from and what could not be read."""

    def __init__(self, plan: Plan, keep: Path, remeasure: Remeasure) -> None:
        self.plan, self.keep, self.remeasure = plan, keep, remeasure
        self.environments: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def level(self, variant: Variant) -> Level | None:
        """Return a value with the numbers of the seeds that there are, or None if there are none."""
        found = []
        for config, job in zip(variant.configs, variant.jobs, strict=True):
            if job.state not in (KEPT, DONE):
                continue
            try:
                result = load_result(job.folder)
                found.append((config.seed, self._numbers(variant, config, result, job.folder), job.folder))
            except (DataError, CheckpointError) as error:
                self.problems.append(str(error))
                continue
            if result.environment not in self.environments:
                self.environments.append(result.environment)
        return Level(variant.value, *zip(*found, strict=True)) if found else None

    def _numbers(self, variant: Variant, config: RunConfig, result: Result, run: Path) -> Numbers:
        if self.plan.knob.name == CONTINUUM:
            return self._of_size(variant, config, result, run)
        if self.plan.once:
            keep = self.keep / f"{self.plan.knob.name}={variant.label}-seed{config.seed}.json"
            return _of_measures(self.remeasure(run, config, keep=keep), config.p)
        numbers = {column.name: number(result) for column, number in columns(max(config.p)).items()}
        return {**numbers, SECONDS.name: sum(row.train_seconds for row in result.tasks)}

    def _of_size(self, variant: Variant, config: RunConfig, result: Result, run: Path) -> Numbers:
        """Return the numbers of one size of continua: from the curve that every run has, if the size is on it."""
        at = result.final.curve.get(variant.value)
        if at is not None:
            return {TASK.name: at.task, PREDICTED.name: at.bound, CLASS.name: at.classes}
        sizes = [other.value for other in self.plan.variants]
        measures = self.remeasure(run, config, sizes=sizes, keep=self.keep / f"{CONTINUUM}-seed{config.seed}.json")
        at = measures.curve[variant.value]
        return {TASK.name: at.task, PREDICTED.name: at.bound, CLASS.name: at.classes}


def _of_measures(measures: Measures, ps: tuple[int, ...]) -> Numbers:
    row = TaskRow(
        index=0,
        classes=[],
        continuum={p: measures.curve[p] for p in ps},
        task_aware=measures.task_aware,
        no_update=measures.no_update,
        measures=measures.measures,
    )
    return {metric.name: metric.after(row) for metric in metrics(ps) if metric.format is PERCENT}
