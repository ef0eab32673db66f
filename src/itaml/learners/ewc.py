"""EWC: elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

| symbol      | here                                                                          |
|-------------|-------------------------------------------------------------------------------|
| lambda      | `strength`                                                                    |
| F           | the diagonal of the Fisher information after a task (`importance.fisher`)     |
| theta*_A    | an anchor's weights; one anchor for each task learned                         |

Differences from the paper:

* F is estimated on `fisher_samples` training images of the task, with labels as `fisher` says; the paper does not say.
* The paper's tasks share an output layer; here the head grows, and a row has importance from its own task on.
* The likelihood is the softmax over the columns of all classes seen.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from itaml import params, seeding
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.importance import Anchor, ImportanceLearner, ImportanceSettings, fisher, some_images
from itaml.params import Weights


class EWCSettings(ImportanceSettings):
    """Settings of EWC."""

    strength: Annotated[float, Field(ge=0)] = 5000.0  # lambda
    fisher: Literal["exact", "sampled", "empirical"] = "sampled"
    fisher_samples: Annotated[int, Field(ge=0)] = 500  # images a task; 0 is all


class EWC(ImportanceLearner):
    """A Fisher penalty for each task."""

    Settings: ClassVar[type[EWCSettings]] = EWCSettings
    settings: EWCSettings

    def loss(self, batch: Batch) -> Tensor:
        """Return L_B + sum over tasks A, weights k of lambda / 2 * F * (theta - theta*_A)**2 (eq. 3)."""
        return super().loss(batch) + self.settings.strength / 2 * self.penalty()

    def end_task(self, task: Task) -> None:
        """Set an anchor at the weights the task ends with."""
        super().end_task(task)
        self.anchors = (*self.anchors, Anchor(params.snapshot(self.model), task_fisher(self, task)))


def task_fisher(learner: ImportanceLearner, task: Task) -> Weights:
    """Return F of the task just learned, as the learner's settings say."""
    s, path = learner.settings, ("fisher", task.index)
    assert isinstance(s, EWCSettings)
    generator = seeding.generator(learner.seeds.batches, *path)
    images, labels = some_images(task.train, most=s.fisher_samples, generator=generator)
    batch = learner.make_batch(images, labels)
    with seeding.seeded(learner.seeds.batches, *path):
        return fisher(learner.model, batch.images, batch.targets, labels=s.fisher)
