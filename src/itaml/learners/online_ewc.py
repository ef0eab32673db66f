"""Online EWC: one running Fisher instead of one a task (Schwarz et al., Progress & Compress, ICML 2018, section 3).

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

from itaml import params
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.ewc import EWCSettings, task_fisher
from itaml.learners.importance import Anchor, ImportanceLearner, grown


class OnlineEWCSettings(EWCSettings):
    """Settings of online EWC."""

    decay: Annotated[float, Field(ge=0, le=1)] = 1.0  # gamma


class OnlineEWC(ImportanceLearner):
    """One Fisher penalty, decayed and added to."""

    Settings: ClassVar[type[OnlineEWCSettings]] = OnlineEWCSettings
    settings: OnlineEWCSettings

    def loss(self, batch: Batch) -> Tensor:
        """Return L_i + lambda / 2 * gamma * F*_(i-1) * (theta - theta*_(i-1))**2, summed over weights (eq. 8)."""
        return super().loss(batch) + self.settings.strength / 2 * self.settings.decay * self.penalty()

    def end_task(self, task: Task) -> None:
        """Move the anchor to the weights the task ends with."""
        super().end_task(task)
        importance = task_fisher(self, task)
        if self.anchors:
            before = grown(self.anchors[0].importance, self.model)
            importance = {k: self.settings.decay * before[k] + importance[k] for k in importance}  # eq. (9)
        self.anchors = (Anchor(params.snapshot(self.model), importance),)
