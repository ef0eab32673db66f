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
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors, ImportanceSettings, Strength, zeros
from itaml.learners.components.path import tracked_step
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Positive
from itaml.params import Weights


class SISettings(ImportanceSettings):
    """Settings of SI."""

    strength: Strength = 0.1  # c
    damping: Positive = 0.1  # xi


class SI(Method):
    """Weights are important that decreased the loss along the path of training."""

    Settings: ClassVar[type[SISettings]] = SISettings
    settings: SISettings
    traits: ClassVar[Traits] = Traits(memory="none")
    saved: ClassVar[tuple[str, ...]] = ("anchors", "path", "start")

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.anchors = Anchors(self.model)
        self.path: Weights = {}
        self.start: Weights = {}

    def begin_task(self, task: Task) -> None:
        """Begin a new path at the present weights."""
        self.path, self.start = zeros(self.model), params.snapshot(self.model)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step on L + c * penalty (eq. 4), and add to omega the decrease of L alone (eq. 3)."""
        loss, gradient, moved = tracked_step(self, self.anchors, batch, optimizer, strength=self.settings.strength)
        self.path = {name: self.path[name] - gradient[name] * moved[name] for name in self.path}
        return loss

    def end_task(self, task: Task) -> None:
        """Turn the path into importance, and move the anchor to the weights the task ends with."""
        moved = params.subtract(params.snapshot(self.model), self.start)
        self.anchors.accumulate(path_importance(self.path, moved, damping=self.settings.damping))
        self.path, self.start = {}, {}


def path_importance(path: Weights, moved: Weights, *, damping: float) -> Weights:
    """Return omega / (Delta**2 + xi) (eq. 5)."""
    return {name: path[name].clamp_min(0) / (moved[name].square() + damping) for name in path}
