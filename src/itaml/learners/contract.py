"""The contract between a learner and everything that uses one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from itaml.data.images import ClassId
from itaml.data.stream import Task
from itaml.models.table import TaskTable
from itaml.storage import State


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a learner says of the samples of one continuum."""

    classes: Tensor  # (n,) class ids
    task: int | None  # of the whole continuum; None from a learner that does not find tasks
    scores: Tensor  # (n, columns) probability of each class seen
    columns: tuple[ClassId, ...]  # class of each column of `scores`

    def top(self, k: int) -> list[list[tuple[ClassId, float]]]:
        """Return for each sample its k most probable classes, the predicted class first."""
        answer = []
        for predicted, row in zip(self.classes.tolist(), self.scores.tolist(), strict=True):
            ranked = sorted(zip(self.columns, row, strict=True), key=lambda pair: (pair[0] != predicted, -pair[1]))
            answer.append(ranked[:k])
        return answer


class Learner(Protocol):
    """Learns tasks one after another and predicts. That is all that a learner must do."""

    def learn(self, task: Task) -> None:
        """Learn a task; a learner restored in the middle of this task goes on where it was."""

    def predict(self, continuum: Tensor) -> Prediction:
        """Predict samples (n, c, h, w) that share one unknown task; n may be 1."""

    def state_dict(self) -> State:
        """Return everything that `load_state_dict` needs to go on to the same bits."""

    def load_state_dict(self, state: State) -> None:
        """Take over a state."""


@runtime_checkable
class Scoring(Protocol):
    """What a learner may offer besides, so that all protocols are evaluated in one pass over the test images."""

    @property
    def table(self) -> TaskTable:
        """Which class is in which task and column."""

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the generic model's score of each class seen (n, columns)."""

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's evidence for each task (n, tasks), to be averaged over a continuum."""

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of the columns of `task` (n, size), after adapting to it if the learner does."""
