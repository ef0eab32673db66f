"""Many runs as few groups: the seeds of one method under one configuration, with means and standard deviations."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from itaml.experiment.result import Result, TaskRow

UPPER_BOUNDS = ("joint",)  # keeps all data: what continual learners are measured against, and never "the best" of them
MAX_LABEL_PARTS = 3  # settings in the name of a group
_APART = ("seed", "seeds", "compute")  # what may differ between the runs of a group


@dataclass(frozen=True)
class Stat:
    """The mean of a number over seeds, and its std (of the sample, n - 1), where there is more than one."""

    mean: float
    std: float | None
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Stat | None:
        """Return the statistics of the values there are, or None if there are none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone."""

    label: str
    runs: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """The run with the smallest seed."""
        return self.runs[0]

    @property
    def is_bound(self) -> bool:
        """Whether the method is an upper bound, not a continual learner."""
        return self.first.method in UPPER_BOUNDS

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.first.tasks)

    def stat(self, number: Callable[[Result], float | None]) -> Stat | None:
        """Return the statistics of a number over the runs."""
        return Stat.of(number(run) for run in self.runs)

    def after_each_task(self, number: Callable[[TaskRow], float | None]) -> list[Stat | None]:
        """Return the statistics of a number of `TaskRow`, after each task."""
        return [Stat.of(number(run.tasks[task]) for run in self.runs) for task in range(self.tasks)]


def by_benchmark(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return results by benchmark, which are never compared with each other."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.benchmark, []).append(result)
    return found


def group(results: Sequence[Result]) -> list[Group]:
    """Group the runs of one benchmark, in the order in which methods first appear."""
    found: dict[str, list[Result]] = {}
    for result in results:
        shape = [len(row.classes) for row in result.tasks], sorted(result.final.continuum)
        fields = {key: value for key, value in result.config.items() if key not in _APART}
        key = json.dumps(
            [result.method, result.preset, result.evaluated_on, shape, fields], sort_keys=True, default=str
        )
        found.setdefault(key, []).append(result)
    groups = [sorted(runs, key=lambda run: run.seed) for runs in found.values()]
    labels = [_label(runs[0], [other[0] for other in groups]) for runs in groups]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            labels[index] = f"{label} #{labels[:index].count(label) + 1}"
    return [Group(label, tuple(runs)) for label, runs in zip(labels, groups, strict=True)]


def _label(run: Result, others: Sequence[Result]) -> str:
    """Name a group by its method, and by as much more as distinguishes it from the others."""
    alike = [other for other in others if other.method == run.method and other is not run]
    parts = [run.preset] if any(other.preset != run.preset for other in alike) else []
    parts += ["memory in bytes"] if run.memory_unit == "bytes" else []
    for other in (other for other in alike if other.preset == run.preset):
        parts += [part for part in _differences(run, other) if part not in parts]
    shown = [*parts[:MAX_LABEL_PARTS], *(["…"] if len(parts) > MAX_LABEL_PARTS else [])]
    return f"{run.method} ({', '.join(shown)})" if shown else run.method


def _differences(run: Result, other: Result) -> list[str]:
    mine, theirs = _flat(run.config), _flat(other.config)
    return [f"{key.removeprefix('settings.')}={value}" for key, value in mine.items() if theirs.get(key) != value]


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in config.items():
        if not prefix and key in _APART:
            continue
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value, default=str).strip('"')
    return flat


def protocol_notes(groups: Sequence[Group]) -> list[str]:
    """Say in sentences where groups of one benchmark were not measured alike."""
    notes = []
    questions: dict[str, Callable[[Result], object]] = {
        "tasks of different sizes": lambda run: [len(row.classes) for row in run.tasks],
        "different orders of classes": lambda run: [row.classes for row in run.tasks],
        "different sizes of continua": lambda run: sorted(run.final.continuum),
        "different evaluation data": lambda run: run.evaluated_on,
        "memories in bytes and memories in images, which are different protocols": lambda run: run.memory_unit,
    }
    for parts, question in questions.items():
        values = {json.dumps(question(run)) for one in groups for run in one.runs}
        if len(values) > 1:
            notes.append(f"The runs below have {parts}: compare them with care.")
            if parts == "tasks of different sizes":
                break
    return notes
