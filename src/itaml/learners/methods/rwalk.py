"""RWalk: Riemannian walk (Chaudhry, Dokania, Ajanthan and Torr, ECCV 2018).

| symbol     | here                                                                                        |
|------------|---------------------------------------------------------------------------------------------|
| F          | `fisher`, a moving average over steps of squared gradients (EWC++)                          |
| alpha      | `average`, the weight of what is new in it                                                  |
| s          | `score`, the fall of the loss for each step of KL-divergence, added up along the path       |
| Delta t    | `interval`, steps between two looks at the path                                             |
| epsilon    | `damping`                                                                                   |
| lambda     | `strength`                                                                                  |

Differences from the paper:

* F comes from the gradient of the mini-batch's mean loss, not from each sample's own. As the paper does with F and s
  before they are added, it is divided by its largest value, so that its scale does not matter.
* `memory=0` is the method without exemplars; otherwise they are rehearsed as in `replay`. The penalty alone cannot
  tell classes of different tasks apart, as the paper says too.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors, Strength, grown, zeros
from itaml.learners.components.path import tracked_step
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Count, Positive, TrainingSettings
from itaml.params import Weights


class RWalkSettings(TrainingSettings):
    """Settings of RWalk."""

    strength: Strength = 1.0  # lambda
    average: Annotated[float, Field(gt=0, le=1)] = 0.9  # alpha
    interval: Count = 10  # Delta t
    damping: Positive = 0.1  # epsilon


class RWalk(Method):
    """EWC++ and path scores together."""

    Settings: ClassVar[type[RWalkSettings]] = RWalkSettings
    settings: RWalkSettings
    saved: ClassVar[tuple[str, ...]] = ("anchors", "walk", "steps")

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.anchors = Anchors(self.model)
        # fisher, score (of this task), averaged (of former ones), and decrease and origin of the interval
        self.walk: dict[str, Weights] = {}
        self.steps = 0  # of the interval under way

    def begin_task(self, task: Task) -> None:
        """Go on with F and the averaged scores, and begin a new path."""
        kept = self.walk
        self.walk = {name: grown(kept.get(name, {}), self.model) for name in ("fisher", "averaged")}
        self.walk |= {"score": zeros(self.model), "fall": zeros(self.model), "origin": params.snapshot(self.model)}
        self.steps = 0

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step on L + lambda * penalty (eq. 9), and follow its path."""
        loss, gradient, moved = tracked_step(self, self.anchors, batch, optimizer, strength=self.settings.strength)
        self._follow(gradient, moved)
        return loss

    def _follow(self, gradient: Weights, moved: Weights) -> None:
        walk, new = self.walk, self.settings.average
        walk["fisher"] = {k: new * gradient[k].square() + (1 - new) * walk["fisher"][k] for k in gradient}  # eq. (7)
        walk["fall"] = {k: walk["fall"][k] - gradient[k] * moved[k] for k in gradient}
        self.steps += 1
        if self.steps == self.settings.interval:
            self._score()

    def _score(self) -> None:
        """Add to the scores the interval's decrease of the loss per step of KL-divergence, and begin another."""
        walk, here = self.walk, params.snapshot(self.model)
        step = params.subtract(here, walk["origin"])
        for k, score in walk["score"].items():
            divergence = 0.5 * walk["fisher"][k] * step[k].square()
            walk["score"][k] = score + walk["fall"][k].clamp_min(0) / (divergence + self.settings.damping)
        walk["fall"], walk["origin"], self.steps = zeros(self.model), here, 0

    def end_task(self, task: Task) -> None:
        """Move the anchor to the weights the task ends with; its importance is F + s, each scaled to at most 1."""
        if self.steps:
            self._score()
        walk = self.walk
        first = not len(self.anchors)
        averaged = walk["score"] if first else params.mean([walk["averaged"], walk["score"]])  # (s_old + s_new) / 2
        fisher, scores = unit(walk["fisher"]), unit(averaged)
        self.anchors.replace({k: fisher[k] + scores[k] for k in fisher})
        self.walk = {"fisher": walk["fisher"], "averaged": averaged}


def unit(weights: Weights) -> Weights:
    """Divide non-negative weights by the largest of them."""
    largest = torch.stack([value.max() for value in weights.values()]).max().clamp_min(1e-30)
    return {name: value / largest for name, value in weights.items()}
