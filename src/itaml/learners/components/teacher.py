"""Distillation: a frozen copy of the classifier as it was before a task teaches the one that learns it."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml import distributed
from itaml.data.images import ImageSet
from itaml.data.loader import iterate
from itaml.data.ownership import own_positions
from itaml.inference.predictor import BATCH
from itaml.learners.context import Context
from itaml.models.classifier import Classifier
from itaml.models.classifier_state import classifier_state, restore_classifier
from itaml.models.sharded_layers import in_shares
from itaml.shares import Share
from itaml.storage import State


class Teacher:
    """A copy of a classifier, while a task needs one."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.model: Classifier | None = None

    def __bool__(self) -> bool:
        return self.model is not None

    def copy(self, model: Classifier) -> None:
        """Keep a frozen copy of a classifier."""
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    def clear(self) -> None:
        """Drop the copy."""
        self.model = None

    @property
    def columns(self) -> int:
        """How many columns the copy has: the first ones of its student."""
        return 0 if self.model is None else len(self.model.task_map.classes)

    def logits(self, images: Tensor, share: Share | None = None) -> Tensor:
        """Return the logits (n, old columns) of images on the device (see `in_shares` for the arguments)."""
        with torch.no_grad():
            return in_shares(self._logits, images, share)

    def _logits(self, images: Tensor) -> Tensor:
        assert self.model is not None, "there is a teacher from the second task on"
        with self.context.autocast():
            logits: Tensor = self.model(images)
        return logits.float()

    def all_logits(self, images: ImageSet, *, flip: bool) -> Tensor:
        """Return the logits (n, old columns) of every image as it is; zeros for those that cannot be read.

        Args:
            images: the images.
            flip: average with the logits of the horizontal flip.
        """
        logits = torch.zeros(len(images), self.columns)
        for pixels, rows in iterate(images.numbered(), own_positions(images), batch_size=BATCH):
            placed = self.context.placed(pixels)
            with torch.no_grad():
                part = self._logits(placed)
                if flip:
                    part = (part + self._logits(placed.flip(3))) / 2
            logits[rows] = part.cpu()
        return distributed.add_up([logits])[0]

    def state_dict(self) -> State | None:
        """Return everything needed to make the copy again; None if there is none."""
        return None if self.model is None else copy.deepcopy(classifier_state(self.model))

    def load_state_dict(self, state: State | None) -> None:
        """Make the copy again, on a network like the learner's."""
        self.model = None
        if state is not None:
            self.copy(self.context.model)
            assert self.model is not None
            restore_classifier(self.model, state)
            self.model.requires_grad_(False)


def distillation(logits: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    """Return each sample's cross-entropy (n,) between the softened probabilities of teacher and student.

    Args:
        logits: of the student (n, columns).
        teacher: the teacher's for the same columns.
        temperature: divides both before the softmax. There is no factor T**2.
    """
    truth = (teacher / temperature).softmax(1)
    return -(truth * F.log_softmax(logits / temperature, dim=1)).sum(1)
