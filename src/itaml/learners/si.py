"""SI: synaptic intelligence (Zenke, Poole and Ganguli, ICML 2017).

| symbol       | here                                                                              |
|--------------|-----------------------------------------------------------------------------------|
| omega        | `path`, what each weight has contributed to the fall of the task's loss           |
| Delta        | how far a weight moved in the task, from `start` to its end                       |
| xi           | `damping`                                                                         |
| Omega        | the importance of the only anchor                                                 |
| c            | `strength`                                                                        |

Differences from the paper: the paper resets the optimiser's state between tasks, and so does every learner here. An
omega below zero (the weight moved against the loss) counts as zero, so that no weight is pushed away from its anchor.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.importance import (
    Anchor,
    ImportanceLearner,
    ImportanceSettings,
    Strength,
    grown,
    zeros,
)
from itaml.learners.settings import Positive
from itaml.params import Weights
from itaml.storage import State


class SISettings(ImportanceSettings):
    """Settings of SI."""

    strength: Strength = 0.1  # c
    damping: Positive = 0.1  # xi


class SI(ImportanceLearner):
    """Weights are important that made the loss fall on the way."""

    Settings: ClassVar[type[SISettings]] = SISettings
    settings: SISettings
    path: Weights
    start: Weights

    def begin_task(self, task: Task) -> None:
        """Begin a new path at the present weights."""
        super().begin_task(task)
        self.path, self.start = zeros(self.model), params.snapshot(self.model)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step on L + c * penalty (eq. 4), and add to omega the fall of L alone that it brought (eq. 3)."""
        loss, slope, moved = self.tracked_step(batch, optimizer, strength=self.settings.strength)
        self.path = {name: self.path[name] - slope[name] * moved[name] for name in self.path}
        return loss

    def end_task(self, task: Task) -> None:
        """Turn the path into importance, and move the anchor to the weights the task ends with."""
        super().end_task(task)
        end = params.snapshot(self.model)
        omega = path_importance(self.path, params.subtract(end, self.start), damping=self.settings.damping)
        if self.anchors:
            before = grown(self.anchors[0].importance, self.model)
            omega = {name: before[name] + omega[name] for name in omega}
        self.anchors = (Anchor(end, omega),)
        self.path, self.start = {}, {}

    def extra_state(self) -> State:
        """Return the anchor, and the path so far."""
        return {**super().extra_state(), "path": getattr(self, "path", {}), "start": getattr(self, "start", {})}

    def load_extra_state(self, state: State) -> None:
        """Take over the anchor and the path."""
        super().load_extra_state(state)
        self.path, self.start = self.placed(state["path"]), self.placed(state["start"])


def path_importance(path: Weights, moved: Weights, *, damping: float) -> Weights:
    """Return omega / (Delta**2 + xi) (eq. 5)."""
    return {name: path[name].clamp_min(0) / (moved[name].square() + damping) for name in path}
