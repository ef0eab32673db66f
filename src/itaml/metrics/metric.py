"""`Metric`: a number that a run is judged by, with its meaning and how it is written.

Importing this module imports no torch.
"""

# ruff: noqa: D102 (the properties are fields of `itaml.experiment.result`, and described there)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from itaml.metrics.matrix import Matrix

Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Format:
    """How a number is written."""

    unit: str
    scale: float
    digits: int

    def text(self, value: float | None) -> str:
        """Return a value without its unit, a dash where there is none."""
        return "-" if value is None else f"{self.scale * value:.{self.digits}f}"


PERCENT, SECONDS, MEGABYTES = Format("%", 100.0, 2), Format("s", 1.0, 1), Format("MB", 1.0, 0)


class AtSize(Protocol):
    """Accuracies with continua of one size."""

    @property
    def classes(self) -> float: ...
    @property
    def task(self) -> float | None: ...


class Numbers(Protocol):
    """Accuracies on everything seen so far: of a task's row, or of the end."""

    @property
    def continuum(self) -> Mapping[int, AtSize]: ...
    @property
    def task_aware(self) -> float | None: ...
    @property
    def no_update(self) -> float | None: ...


class TaskNumbers(Numbers, Protocol):
    """The numbers after one task (`itaml.experiment.result.TaskRow`)."""

    @property
    def train_seconds(self) -> float: ...
    @property
    def peak_memory_mb(self) -> float | None: ...
    @property
    def measures(self) -> Mapping[str, float | None]: ...


class End(Numbers, Protocol):
    """The numbers after the last task (`itaml.experiment.result.Final`)."""

    @property
    def average_incremental(self) -> Mapping[int, float]: ...
    @property
    def forgetting(self) -> float: ...


class Finished(Protocol):
    """A finished run (`itaml.experiment.result.Result`)."""

    @property
    def tasks(self) -> Sequence[TaskNumbers]: ...
    @property
    def final(self) -> End: ...
    @property
    def accuracy_matrix(self) -> Matrix: ...


@dataclass(frozen=True)
class Metric:
    """A number that a run is judged by."""

    name: str  # heads a column: "class p=20"
    key: str  # for programs: "class_p20"
    title: str  # the name in full
    meaning: str
    direction: Direction  # which values are better
    format: Format
    value_of: Callable[[Finished], float | None]  # of a finished run; None where it is not defined or not measured
    after_task: Callable[[TaskNumbers], float | None] | None = None  # after each task, if it is known then
    plotted: bool = False  # drawn as a curve over tasks
    measure: str = ""  # import path of a function (Samples) -> float | None, called in every evaluation
    before_task: str = ""  # import path of a function (Learner, Task, test ImageSet) -> float | None

    def after(self, row: TaskNumbers) -> float | None:
        """Return the value after a task, None if it is not known then."""
        return None if self.after_task is None else self.after_task(row)
