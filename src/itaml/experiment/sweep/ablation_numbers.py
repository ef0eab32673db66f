"""The numbers of an ablation, read from finished runs or evaluated on their checkpoints.

Where one trained learner serves all values, there is no average over tasks, no forgetting and no training time to
compare: the first two would need the learner as it was after every task, and the third is the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itaml.errors import CheckpointError, DataError
from itaml.experiment.reevaluate import Measures, Reevaluator
from itaml.experiment.result import Result, TaskRow, load_result
from itaml.experiment.run_config import RunConfig
from itaml.experiment.sweep.ablate import Plan, Variant
from itaml.experiment.sweep.job import DONE, KEPT
from itaml.experiment.sweep.parameters import CONTINUUM, format_value
from itaml.metrics.metric import PERCENT
from itaml.metrics.metric_registry import metrics

TASK, PREDICTED, CLASS, SECONDS = "task", "task, Alg. 4", "class", "training s"  # numbers that are no metrics
Numbers = Mapping[str, float | None]  # by name: of a metric, or of the four above


@dataclass(frozen=True)
class Level:
    """A value of the sweep parameter, and its numbers for each seed."""

    value: Any
    seeds: tuple[int, ...]
    numbers: tuple[Numbers, ...]
    runs: tuple[Path, ...]  # whose weights they are

    @property
    def label(self) -> str:
        """The value as people write it."""
        return format_value(self.value)


@dataclass(frozen=True)
class Measured:
    """What was measured; `problems` says in sentences what could not be."""

    plan: Plan
    levels: tuple[Level, ...]
    environments: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]


def measure(plan: Plan, *, keep: Path, reevaluate: Reevaluator) -> Measured:
    """Read what was trained, and evaluate it with every value where that is all that a value needs.

    Args:
        plan: whose runs are over; those that failed are left out.
        keep: folder of evaluations.
        reevaluate: evaluates.
    """
    reader = _Reader(plan, keep, reevaluate)
    levels = [level for variant in plan.variants if (level := reader.level(variant)) is not None]
    return Measured(plan, tuple(levels), tuple(reader.environments), tuple(dict.fromkeys(reader.problems)))


class _Reader:
    """Reads the numbers of values, and notes which versions they come from and what could not be read."""

    def __init__(self, plan: Plan, keep: Path, reevaluate: Reevaluator) -> None:
        self.plan, self.keep, self.reevaluate = plan, keep, reevaluate
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
        if self.plan.parameter.name == CONTINUUM:
            return self._of_size(variant, config, result, run)
        if self.plan.once:
            keep = self.keep / f"{self.plan.parameter.name}={variant.label}-seed{config.seed}.json"
            return _of_measures(self.reevaluate(run, config, keep=keep), config.p)
        numbers = {metric.name: metric.value_of(result) for metric in metrics(config.p)}
        return {**numbers, SECONDS: sum(row.train_seconds for row in result.tasks)}

    def _of_size(self, variant: Variant, config: RunConfig, result: Result, run: Path) -> Numbers:
        """Return the numbers of one size of continua: from the curve that every run has, if the size is on it."""
        at = result.final.curve.get(variant.value)
        if at is not None:
            return {TASK: at.task, PREDICTED: at.bound, CLASS: at.classes}
        sizes = [other.value for other in self.plan.variants]
        measures = self.reevaluate(run, config, sizes=sizes, keep=self.keep / f"{CONTINUUM}-seed{config.seed}.json")
        at = measures.curve[variant.value]
        return {TASK: at.task, PREDICTED: at.bound, CLASS: at.classes}


def _of_measures(measures: Measures, continuum_sizes: tuple[int, ...]) -> Numbers:
    row = TaskRow(
        index=0,
        classes=[],
        continuum={p: measures.curve[p] for p in continuum_sizes},
        task_aware=measures.task_aware,
        no_update=measures.no_update,
        measures=measures.measures,
    )
    return {metric.name: metric.after(row) for metric in metrics(continuum_sizes) if metric.format is PERCENT}
