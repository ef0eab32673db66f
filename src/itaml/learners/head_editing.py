"""Remove and merge classes of a learner that is trained by gradient steps.

A class that is forgotten loses its row of the head and its exemplars; the logits of the other classes stay the same to
the bit. Two classes that are merged keep the row of the target, which is then trained on the exemplars of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.data.stream import Task
from itaml.errors import DataError, SettingsError

if TYPE_CHECKING:
    from itaml.learners.learner import GradientLearner


def forget_class(learner: GradientLearner, class_id: ClassId) -> None:
    """Remove a class: its row of the head and its exemplars (see `Editable` for errors)."""
    _check(learner)
    learner.model.head.remove(class_id)
    learner.memory.remove(class_id)
    learner.predictor.gaussians.remove(class_id)
    _clear(learner)


def merge_classes(learner: GradientLearner, source: ClassId, target: ClassId) -> None:
    """Make two classes one, and train on the exemplars of both (see `Editable` for errors)."""
    _check(learner)
    learner.task_map.column_of(torch.tensor([source, target]))
    learner.memory.merge(source, target)
    learner.predictor.gaussians.merge(source, target)
    learner.model.head.remove(source)
    _clear(learner)
    exemplars = learner.memory.exemplars([target])
    if exemplars is not None:
        learner.learn(Task(len(learner.task_map), (), exemplars))


def remove_images(learner: GradientLearner, images: Tensor, labels: Tensor) -> None:
    """Drop images from the exemplars (see `Editable` for errors)."""
    learner.task_map.column_of(labels)
    learner.memory.discard(images, labels)
    learner.clear_caches()


def renumber_classes(learner: GradientLearner, ids: Mapping[ClassId, ClassId]) -> None:
    """Give every class another id; the rows of the head stay where they are."""
    _check(learner)
    learner.model.head.task_map = learner.task_map.renumbered(ids)
    learner.memory.renumber(ids)
    learner.predictor.gaussians.renumber(ids)
    _clear(learner)


def _check(learner: GradientLearner) -> None:
    if learner.context.progress is not None:
        raise DataError(f"task {learner.context.progress.task} is under way and must be finished first")
    if not learner.method.can_remove_classes:
        raise SettingsError(
            f"the method {type(learner.method).__name__} cannot remove or merge classes: what it keeps besides the "
            "weights belongs to the classes as they are"
        )


def _clear(learner: GradientLearner) -> None:
    """Drop what has the old columns; a new teacher is copied when a task begins."""
    learner.recipe.teacher.clear()
    learner.clear_caches()
