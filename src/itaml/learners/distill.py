"""Distillation, shared by many methods: the classifier as it was before a task teaches the one that learns it."""

from __future__ import annotations

import copy
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from itaml.data.images import ImageSet
from itaml.data.loader import iterate
from itaml.data.stream import Task
from itaml.learners.base import SgdLearner
from itaml.learners.two_stage import BATCH
from itaml.models.classifier import Classifier
from itaml.models.state import classifier_state, restore_classifier
from itaml.storage import State

Temperature = Annotated[float, Field(gt=0)]


class Teacher:
    """A frozen copy of a classifier."""

    def __init__(self, model: Classifier) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @property
    def columns(self) -> int:
        """How many columns it knows: the first ones of its pupil."""
        return len(self.model.table.classes)

    def state(self) -> State:
        """Return everything needed to make it again."""
        return classifier_state(self.model)

    @classmethod
    def of_state(cls, state: State, model: Classifier) -> Teacher:
        """Make it again, on a network like `model`."""
        teacher = cls(model)
        restore_classifier(teacher.model, state)
        teacher.model.requires_grad_(False)
        return teacher


def distillation(logits: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    """Return each sample's cross-entropy (n,) between the teacher's softened probabilities and the pupil's.

    Args:
        logits: of the pupil (n, columns).
        teacher: the teacher's for the same columns.
        temperature: divides both before the softmax. There is no factor T**2.
    """
    truth = (teacher / temperature).softmax(1)
    return -(truth * F.log_softmax(logits / temperature, dim=1)).sum(1)


class DistillingLearner(SgdLearner):
    """A learner with a teacher while a task is under way, from the second task on."""

    teacher: Teacher | None = None

    def begin_task(self, task: Task) -> None:
        """Keep the classifier as it is, and grow the head."""
        self.teacher = Teacher(self.model) if len(self.table) and self.wants_teacher() else None
        super().begin_task(task)

    def wants_teacher(self) -> bool:
        """Say whether to keep a teacher at all."""
        return True

    def end_task(self, task: Task) -> None:
        """Let the teacher go, and choose exemplars."""
        self.teacher = None
        super().end_task(task)

    def taught(self, images: Tensor) -> Tensor:
        """Return the teacher's logits (n, old columns)."""
        assert self.teacher is not None, "there is a teacher from the second task on"
        with torch.no_grad(), self.autocast():
            logits: Tensor = self.teacher.model(images)
        return logits.float()

    def taught_all(self, images: ImageSet, *, mirrored: bool) -> Tensor:
        """Return the teacher's logits (n, old columns) of every picture as it is; zeros for those that cannot be read.

        Args:
            images: the pictures.
            mirrored: average with the logits of its mirror image.
        """
        assert self.teacher is not None, "there is a teacher from the second task on"
        answers = torch.zeros(len(images), self.teacher.columns)
        for pixels, rows in iterate(images.numbered(), torch.arange(len(images)), batch_size=BATCH):
            placed = pixels.to(self.device, memory_format=self.layout)
            logits = self.taught(placed)
            if mirrored:
                logits = (logits + self.taught(placed.flip(3))) / 2
            answers[rows] = logits.cpu()
        return answers

    def extra_state(self) -> State:
        """Return the teacher."""
        return {"teacher": None if self.teacher is None else self.teacher.state()}

    def load_extra_state(self, state: State) -> None:
        """Take over the teacher."""
        kept = state.get("teacher")
        self.teacher = None if kept is None else Teacher.of_state(kept, self.model)
