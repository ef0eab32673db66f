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

from itaml import seeding
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors, ImportanceSettings, fisher, some_images
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.params import Weights


class EWCSettings(ImportanceSettings):
    """Settings of EWC."""

    strength: Annotated[float, Field(ge=0)] = 5000.0  # lambda
    fisher: Literal["exact", "sampled", "empirical"] = "sampled"
    fisher_samples: Annotated[int, Field(ge=0)] = 500  # images per task; 0 is all


class EWC(Method):
    """A Fisher penalty for each task."""

    Settings: ClassVar[type[EWCSettings]] = EWCSettings
    settings: EWCSettings
    traits: ClassVar[Traits] = Traits(memory="none")
    saved: ClassVar[tuple[str, ...]] = ("anchors",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.anchors = Anchors(self.model)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_B + sum over tasks A, weights k of lambda / 2 * F * (theta - theta*_A)**2 (eq. 3)."""
        return super().loss(batch) + self.settings.strength / 2 * self.anchors.penalty()

    def end_task(self, task: Task) -> None:
        """Set an anchor at the weights the task ends with."""
        self.anchors.add(task_fisher(self.context, self.settings, task))


def task_fisher(context: Context, settings: EWCSettings, task: Task) -> Weights:
    """Return F of the task just learned, as the settings say."""
    path = ("fisher", task.index)
    generator = seeding.generator(context.seeds.batches, *path)
    images, labels = some_images(task.train, limit=settings.fisher_samples, generator=generator)
    batch = context.make_batch(images, labels)
    with seeding.seeded(context.seeds.batches, *path):
        return fisher(context.model, batch.images, batch.targets, labels=settings.fisher)
