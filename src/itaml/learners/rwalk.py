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
from itaml.learners.batch import Batch
from itaml.learners.importance import Anchor, ImportanceLearner, Strength, grown, zeros
from itaml.learners.settings import Count, Positive, SgdSettings
from itaml.params import Weights
from itaml.storage import State


class RWalkSettings(SgdSettings):
    """Settings of RWalk."""

    strength: Strength = 1.0  # lambda
    average: Annotated[float, Field(gt=0, le=1)] = 0.9  # alpha
    interval: Count = 10  # Delta t
    damping: Positive = 0.1  # epsilon


class RWalk(ImportanceLearner):
    """EWC++ and path scores together."""

    Settings: ClassVar[type[SgdSettings]] = RWalkSettings
    settings: RWalkSettings
    uses_memory: ClassVar[bool] = True
    walk: dict[str, Weights]  # fisher, score (of this task), averaged (of former ones), fall and origin of the interval
    steps = 0  # of the interval under way

    def begin_task(self, task: Task) -> None:
        """Go on with F and the averaged scores, and begin a new path."""
        super().begin_task(task)
        kept = getattr(self, "walk", {})
        self.walk = {name: grown(kept.get(name, {}), self.model) for name in ("fisher", "averaged")}
        self.walk |= {"score": zeros(self.model), "fall": zeros(self.model), "origin": params.snapshot(self.model)}
        self.steps = 0

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take a step on L + lambda * penalty (eq. 9), and follow its path."""
        loss, slope, moved = self.tracked_step(batch, optimizer, strength=self.settings.strength)
        self._follow(slope, moved)
        return loss

    def _follow(self, slope: Weights, moved: Weights) -> None:
        walk, new = self.walk, self.settings.average
        walk["fisher"] = {k: new * slope[k].square() + (1 - new) * walk["fisher"][k] for k in slope}  # eq. (7)
        walk["fall"] = {k: walk["fall"][k] - slope[k] * moved[k] for k in slope}
        self.steps += 1
        if self.steps == self.settings.interval:
            self._score()

    def _score(self) -> None:
        """Add to the scores the interval's fall of the loss for its step of KL-divergence, and begin another."""
        walk, here = self.walk, params.snapshot(self.model)
        step = params.subtract(here, walk["origin"])
        for k, score in walk["score"].items():
            divergence = 0.5 * walk["fisher"][k] * step[k].square()
            walk["score"][k] = score + walk["fall"][k].clamp_min(0) / (divergence + self.settings.damping)
        walk["fall"], walk["origin"], self.steps = zeros(self.model), here, 0

    def end_task(self, task: Task) -> None:
        """Move the anchor to the weights the task ends with; its importance is F + s, each scaled to at most 1."""
        super().end_task(task)
        if self.steps:
            self._score()
        walk = self.walk
        first = not self.anchors
        averaged = walk["score"] if first else params.mean([walk["averaged"], walk["score"]])  # (s_old + s_new) / 2
        fisher, scores = unit(walk["fisher"]), unit(averaged)
        importance = {k: fisher[k] + scores[k] for k in fisher}
        self.anchors = (Anchor(params.snapshot(self.model), importance),)
        self.walk = {"fisher": walk["fisher"], "averaged": averaged}

    def extra_state(self) -> State:
        """Return the anchor and the walk so far."""
        return {**super().extra_state(), "walk": getattr(self, "walk", {}), "steps": self.steps}

    def load_extra_state(self, state: State) -> None:
        """Take over the anchor and the walk."""
        super().load_extra_state(state)
        self.walk = {name: self.placed(weights) for name, weights in state["walk"].items()}
        self.steps = state["steps"]


def unit(weights: Weights) -> Weights:
    """Divide non-negative weights by the largest of them."""
    largest = torch.stack([value.max() for value in weights.values()]).max().clamp_min(1e-30)
    return {name: value / largest for name, value in weights.items()}
