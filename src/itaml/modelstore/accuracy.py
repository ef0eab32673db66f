"""Accuracy on images that were not trained on, each alone among all classes."""

from __future__ import annotations

import torch
from torch import Tensor

from itaml.data.images import ImageSet
from itaml.learners.learner import GradientLearner
from itaml.modelstore.manifest import TaskScore
from itaml.modelstore.validation import ValidationImages, of_task

BATCH = 500


def accuracy(learner: GradientLearner, images: ImageSet) -> float | None:
    """Return the share of images whose class is predicted, each alone among all classes; None if there are none."""
    right = total = 0
    for pixels, labels in images.batches(BATCH):
        if len(labels):
            right += int((predict_alone(learner, pixels) == labels).sum())
            total += len(labels)
    return right / total if total else None


def predict_alone(learner: GradientLearner, pixels: Tensor) -> Tensor:
    """Return the class of each image (n,), each a continuum of its own."""
    return learner.predict(pixels, torch.arange(len(pixels))).classes


def task_accuracies(learner: GradientLearner, validation_images: ValidationImages) -> list[float | None]:
    """Return for each task the accuracy on its validation images."""
    return [
        _accuracy_of(learner, of_task(validation_images, learner.task_map, task))
        for task in range(len(learner.task_map))
    ]


def task_scores(
    learner: GradientLearner,
    old: ValidationImages,
    new: ValidationImages,
    before: list[float | None],
    after: list[float | None],
) -> tuple[TaskScore, ...]:
    """Compare old tasks on the validation images kept before a learn; measure a new task on those kept by it."""
    scores = []
    for task in range(len(learner.task_map)):
        is_old = task < len(before)
        part = of_task(old if is_old else new, learner.task_map, task)
        scores.append(
            TaskScore(
                task=task,
                images=0 if part is None else len(part[1]),
                before=before[task] if is_old else None,
                after=after[task] if is_old else _accuracy_of(learner, part),
            )
        )
    return tuple(scores)


def _accuracy_of(learner: GradientLearner, part: tuple[Tensor, Tensor] | None) -> float | None:
    return None if part is None else accuracy(learner, ImageSet.from_arrays(*part))
