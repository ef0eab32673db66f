"""Online EWC: one running Fisher instead of one per task (Schwarz et al., Progress & Compress, ICML 2018, section 3).

| symbol        | here                                                      |
|---------------|-----------------------------------------------------------|
| lambda        | `strength`                                                |
| gamma         | `decay`                                                   |
| F*_(i-1)      | the importance of the only anchor                         |
| theta*_(i-1)  | its weights, those after the latest task                  |

Differences from the paper: only its consolidation step is used, without the active column; the penalty has the factor
lambda of EWC, which the paper leaves out; F as in `ewc`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.methods.ewc import EWCSettings, task_fisher
from itaml.learners.recipe import Recipe


class OnlineEWCSettings(EWCSettings):
    """Settings of online EWC."""

    decay: Annotated[float, Field(ge=0, le=1)] = 1.0  # gamma


class OnlineEWC(Method):
    """One Fisher penalty, decayed and added to."""

    Settings: ClassVar[type[OnlineEWCSettings]] = OnlineEWCSettings
    settings: OnlineEWCSettings
    traits: ClassVar[Traits] = Traits(memory="none")
    saved: ClassVar[tuple[str, ...]] = ("anchors",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.anchors = Anchors(self.model)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_i + lambda / 2 * gamma * F*_(i-1) * (theta - theta*_(i-1))**2, summed over weights (eq. 8)."""
        return super().loss(batch) + self.settings.strength / 2 * self.settings.decay * self.anchors.penalty()

    def end_task(self, task: Task) -> None:
        """Add F to the decayed importance (eq. 9), and move the anchor to the weights the task ends with."""
        self.anchors.accumulate(task_fisher(self.context, self.settings, task), decay=self.settings.decay)
