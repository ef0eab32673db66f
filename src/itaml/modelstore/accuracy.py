"""Accuracy on images that were not trained on, each alone among all classes.

These are validation images; where a task has none, a learner that can leave its exemplars out one by one is measured on
those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.learners.api import Learner
from itaml.learners.left_out import can_leave_out, left_out_predictions
from itaml.models.task_map import TaskMap
from itaml.modelstore.manifest import TaskScore
from itaml.modelstore.validation import ValidationImages, of_task

BATCH = 500

LeftOut = tuple[Tensor, Tensor]  # class ids of exemplars (n,), and what is predicted when each is left out (n,)
NOTHING: LeftOut = (torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))


def accuracy(learner: Learner, images: ImageSet) -> float | None:
    """Return the share of images whose class is predicted, each alone among all classes; None if there are none."""
    right = total = 0
    for pixels, labels in images.batches(BATCH):
        if len(labels):
            right += int((predict_alone(learner, pixels) == labels).sum())
            total += len(labels)
    return right / total if total else None


def predict_alone(learner: Learner, pixels: Tensor) -> Tensor:
    """Return the class of each image (n,), each a continuum of its own."""
    return learner.predict(pixels, torch.arange(len(pixels))).classes


def left_out(learner: Learner) -> LeftOut:
    """Return what a learner says of its exemplars, each left out; nothing from learners that cannot do that."""
    return left_out_predictions(learner) if can_leave_out(learner) else NOTHING


def right_by_class(found: LeftOut) -> dict[ClassId, tuple[int, int]]:
    """Return for each class how many exemplars there are, and how many are right when each is left out."""
    labels, predicted = found
    classes, rows = labels.unique(return_inverse=True)
    right = torch.bincount(rows[labels == predicted], minlength=len(classes))
    number = torch.bincount(rows, minlength=len(classes))
    return dict(zip(classes.tolist(), zip(number.tolist(), right.tolist(), strict=True), strict=True))


def left_out_accuracy(found: Mapping[ClassId, tuple[int, int]], classes: Sequence[ClassId]) -> tuple[int, float | None]:
    """Return how many exemplars of some classes there are, and which share of them is right; see `right_by_class`."""
    each = [found.get(label, (0, 0)) for label in classes]
    number, right = sum(count for count, _ in each), sum(count for _, count in each)
    return number, right / number if number else None


def task_accuracies(learner: Learner, validation_images: ValidationImages, task_map: TaskMap) -> list[float | None]:
    """Return for each task the accuracy on its validation images."""
    return [_accuracy_of(learner, of_task(validation_images, task_map, task)) for task in range(len(task_map))]


def task_scores(
    learner: Learner,
    task_map: TaskMap,
    old: ValidationImages,
    new: ValidationImages,
    before: list[float | None],
    exemplars: LeftOut,
    last: Sequence[TaskScore] = (),
) -> tuple[TaskScore, ...]:
    """Compare old tasks on the validation images kept before a learn; measure a new task on those kept by it.

    Args:
        learner: after the learn.
        task_map: after the learn.
        old: validation images kept before.
        new: validation images kept now.
        before: accuracy of the old tasks before the learn.
        exemplars: predictions of exemplars that are left out, for tasks without validation images.
        last: what the learn before this one has measured.
    """
    scores, by_class = [], right_by_class(exemplars)
    for task in range(len(task_map)):
        part = of_task(old if task < len(before) else new, task_map, task)
        earlier = before[task] if task < len(before) else None
        if part is not None:
            images, after, left = len(part[1]), _accuracy_of(learner, part), False
        else:
            left = True
            images, after = left_out_accuracy(by_class, task_map.tasks[task])
            earlier = last[task].after if task < min(len(before), len(last)) and images else None
        scores.append(TaskScore(task=task, images=images, before=earlier, after=after, left_out=left and images > 0))
    return tuple(scores)


def _accuracy_of(learner: Learner, part: tuple[Tensor, Tensor] | None) -> float | None:
    return None if part is None else accuracy(learner, ImageSet.from_arrays(*part))
