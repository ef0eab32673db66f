"""Joint training: every task is trained on all data seen so far. The upper bound, not a continual learner.

| symbol         | here                                                                |
|----------------|---------------------------------------------------------------------|
| D(1) .. D(t-1) | `memory`, here without a limit                                      |
| D(t)           | `task.train`                                                        |

Differences from offline training: the network goes on from the weights of the task before, instead of from new ones.

State: the pictures of all tasks learned are part of the state, as pixels, because a learner that is resumed cannot ask
for them again. A state is as large as the data (47 MB for MNIST), and data decoded from files is held in memory; for
data sets beyond memory use `replay` with the largest memory that fits. The setting `memory` is not used.
"""

from __future__ import annotations

from typing import ClassVar

from itaml.config import Compute, Seeds
from itaml.learners.base import SgdLearner
from itaml.learners.settings import NoMemorySettings, SgdSettings
from itaml.memory.store import Memory
from itaml.models.classifier import Classifier

EVERYTHING = 2**48  # pictures; no data set has more


class Joint(SgdLearner):
    """Train on all data so far."""

    Settings: ClassVar[type[SgdSettings]] = NoMemorySettings
    uses_memory: ClassVar[bool] = False  # the budget of the settings

    def __init__(
        self, model: Classifier, *, settings: SgdSettings, seeds: Seeds, compute: Compute | None = None
    ) -> None:
        super().__init__(model, settings=settings, seeds=seeds, compute=compute)
        self.memory = Memory(budget=EVERYTHING, selection="first")
