"""Joint training: every task is trained on all data seen so far. The upper bound, not a continual learner.

| symbol         | here                                                                |
|----------------|---------------------------------------------------------------------|
| D(1) .. D(t-1) | `memory`, here without a limit                                      |
| D(t)           | `task.train`                                                        |

Differences from offline training: the network continues from the weights of the task before, instead of from new ones.

State: the images of all tasks learned are part of the state, as pixels, because a learner that is resumed cannot ask
for them again. A state is as large as the data (47 MB for MNIST), and data decoded from files is held in memory; for
data sets beyond memory use `replay` with the largest memory that fits. The setting `memory` is not used.
"""

from __future__ import annotations

from typing import ClassVar

from itaml.learners.api import Traits
from itaml.learners.method import Method
from itaml.learners.settings import NoMemorySettings, TrainingSettings


class Joint(Method):
    """Train on all data so far."""

    Settings: ClassVar[type[TrainingSettings]] = NoMemorySettings
    traits: ClassVar[Traits] = Traits(memory="everything")
