"""BiC: bias correction (Wu, Chen, Wang, Ye, Liu, Guo and Fu, Large Scale Incremental Learning, CVPR 2019).

| symbol             | here                                                                                   |
|--------------------|----------------------------------------------------------------------------------------|
| n, m               | old and new classes                                                                    |
| o_k, q_k           | logits before and after the correction: q = alpha * o + beta for the columns of a task |
| alpha, beta        | `bias`: two numbers per task; (1, 0) for the first                                     |
| T                  | `temperature`                                                                          |
| lambda             | n / (n + m)                                                                            |
| train_old, val_old | `memory` and `validation`, nine parts of the budget to one                             |

Differences from the paper:

* alpha and beta are the optimum of stage 2's convex problem, found by L-BFGS in double precision with an L2 penalty of
  1e-3 on the distance from (1, 0), which keeps them finite when the validation images are separated perfectly; the
  paper takes steps of SGD.
* Corrections of earlier tasks are kept, and applied to both networks in stage 1; the paper does not say.
* Validation images are never trained on, in the task they come with or later.
* More images of known classes (no new ones) are learned with their labels alone.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from itaml import seeding
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.bias_correction import fit_bias
from itaml.learners.components.teacher import distillation
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import MemorySettings, Temperature
from itaml.memory.buffer import Memory
from itaml.models.sharded_layers import in_shares


class BiCSettings(MemorySettings):
    """Settings of BiC."""

    temperature: Temperature = 2.0  # T
    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1  # of the memory, for validation

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.memory_bytes:
            raise ValueError("bic divides its memory by images: set memory instead of memory_bytes")
        if not 0 < self.validation < self.memory:
            raise ValueError(f"a memory of {self.memory} has no room for validation images: set a larger memory")
        return self

    @model_validator(mode="after")
    def _own_correction(self) -> Self:
        if self.align_head:
            raise ValueError("bic corrects the scores of its own head: align_head must be 0")
        return self

    @property
    def validation(self) -> int:
        """Images kept for validation."""
        return round(self.memory * self.validation_share)

    @property
    def room(self) -> int:
        """Images in the smaller of the two memories."""
        return min(self.validation, self.memory - self.validation)


class BiC(Method):
    """Distillation, and then two numbers against the bias to new classes."""

    Settings: ClassVar[type[BiCSettings]] = BiCSettings
    settings: BiCSettings
    traits: ClassVar[Traits] = Traits(
        needs_teacher=True,
        read_in_training=frozenset({"flip_tta", "shift_tta"}),  # the correction is fitted to the scores
    )
    saved: ClassVar[tuple[str, ...]] = ("bias", "validation")

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.memory.budget = self.settings.memory - self.settings.validation
        self.validation = Memory(budget=self.settings.validation, selection="first")
        self.bias: list[list[float]] = []  # alpha and beta of each task learned

    def training_data(self, task: Task) -> ImageSet:
        """Return train_new."""
        return self._divide(task)[0]

    def loss(self, batch: Batch) -> Tensor:
        """Return lambda * L_d + (1 - lambda) * L_c (eqs. 1 to 3)."""
        logits, old = self.corrected(self.logits(batch)), self.recipe.teacher.columns
        classification = self.recipe.classification_loss(logits, batch)
        if old in (0, logits.shape[1]):
            return classification
        teacher_logits = self.corrected(self.recipe.teacher_logits(batch))
        distilled = distillation(logits[:, :old], teacher_logits, temperature=self.settings.temperature)
        share = old / logits.shape[1]
        return share * distilled.mean() + (1 - share) * classification

    def end_task(self, task: Task) -> None:
        """Choose validation exemplars, and find alpha and beta on those, which are balanced."""
        generator = seeding.generator(self.seeds.memory, "held", task.index)
        self.validation.add(self._divide(task)[1], self.task_map.classes, generator=generator)
        new = len(self.task_map) - 1
        if len(self.bias) <= new:
            self.bias.append([1.0, 0.0])
        validation = self.validation.exemplars()
        if new and validation is not None:
            self.bias[new] = [1.0, 0.0]
            images, labels = validation.load()
            scores = self.corrected(in_shares(self.predictor.model_scores, images))
            self.bias[new] = list(fit_bias(scores, self.task_map.column_of(labels), self.task_map.columns(new)))

    def _divide(self, task: Task) -> tuple[ImageSet, ImageSet]:
        """Return what of a task is for training and what for validation, the same at every call."""
        generator = seeding.generator(self.seeds.memory, "validation", task.index)
        validation, classes = [], self.task_map.classes
        for rank, class_id in enumerate(classes):
            positions = (task.train.labels == class_id).nonzero().flatten()
            count = min(self.validation.share(rank, len(classes)), len(positions) // 2)
            validation.append(positions[torch.randperm(len(positions), generator=generator)[:count]])
        chosen = torch.zeros(len(task.train), dtype=torch.bool)
        chosen[torch.cat(validation)] = True
        return task.train.select((~chosen).nonzero().flatten()), task.train.select(chosen.nonzero().flatten())

    def corrected(self, logits: Tensor) -> Tensor:
        """Return q (eq. 4): each learned task's columns times its alpha, plus its beta."""
        known = [self.bias[task] if task < len(self.bias) else [1.0, 0.0] for task in range(len(self.task_map))]
        pairs = torch.tensor(known, dtype=logits.dtype, device=logits.device)[self.task_map.task_of_column]
        return logits * pairs[: logits.shape[1], 0] + pairs[: logits.shape[1], 1]

    def class_scores(self, images: Tensor) -> Tensor:
        """Return corrected scores."""
        return self.corrected(super().class_scores(images))
