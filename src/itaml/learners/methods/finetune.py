"""Fine-tuning: continue training on each task's own data, with nothing done against forgetting.

The lower bound of every comparison (for example "Finetuning" in Li and Hoiem, Learning without Forgetting, ECCV 2016).

| symbol | here                                             |
|--------|--------------------------------------------------|
| D(t)   | `task.train`, all that a task is trained on      |

Differences from the usual: none. The loss runs over the columns of all classes seen (`negatives="seen"`), as for every
learner here, which is why old classes are unlearned within a few steps.
"""

from __future__ import annotations

from typing import ClassVar

from itaml.learners.api import Traits
from itaml.learners.method import Method
from itaml.learners.settings import NoMemorySettings, TrainingSettings


class Finetune(Method):
    """Train on."""

    Settings: ClassVar[type[TrainingSettings]] = NoMemorySettings
    traits: ClassVar[Traits] = Traits(memory="none")
