"""MAS: memory aware synapses (Aljundi et al., ECCV 2018).

| symbol       | here                                                             |
|--------------|------------------------------------------------------------------|
| F(x; theta)  | the logits                                                       |
| g(x)         | gradient of the squared length of F                              |
| Omega        | the importance of the only anchor                                |
| lambda       | `strength`                                                       |

Differences from the paper: the importance of a task is measured on `samples` of its training images, without labels;
the paper may use any images. Importances of tasks are added up, as in the paper.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from itaml import seeding
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors, ImportanceSettings, mean_over_samples, some_images
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.models.classifier import Classifier
from itaml.params import Weights


class MASSettings(ImportanceSettings):
    """Settings of MAS."""

    samples: Annotated[int, Field(ge=0)] = 500  # images per task; 0 is all


class MAS(Method):
    """Weights are important that the output is sensitive to."""

    Settings: ClassVar[type[MASSettings]] = MASSettings
    settings: MASSettings
    traits: ClassVar[Traits] = Traits(memory="none")
    saved: ClassVar[tuple[str, ...]] = ("anchors",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.anchors = Anchors(self.model)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_n + lambda * Omega * (theta - theta*)**2, summed over weights (eq. 4)."""
        return super().loss(batch) + self.settings.strength * self.anchors.penalty()

    def end_task(self, task: Task) -> None:
        """Add the task's importance, and move the anchor to the weights it ends with."""
        generator = seeding.generator(self.seeds.batches, "importance", task.index)
        images, labels = some_images(task.train, limit=self.settings.samples, generator=generator)
        self.anchors.accumulate(sensitivity(self.model, self.context.make_batch(images, labels).images))


def sensitivity(model: Classifier, images: Tensor) -> Weights:
    """Return the mean over images of |gradient of the squared length of the output| (eqs. 2 and 3)."""
    unused = torch.zeros(len(images), device=images.device)
    return mean_over_samples(model, images, unused, output=lambda out, _: out.square().sum(), size=torch.abs)
