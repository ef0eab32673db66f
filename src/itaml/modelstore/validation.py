"""Images that are never trained on: a validation split of what arrives, of which a few of each class are kept for good.

They measure what was forgotten. They count in the memory's budget: of a class's share of `per` images, one in ten is
for validation, none where the share is below four. A learner that can leave its images out one by one exactly (LDA) is
measured by that where a class has few images, and then learns from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.images import ClassId, ImageSet
from itaml.models.task_map import TaskMap

ValidationImages = dict[ClassId, Tensor]  # class -> samples (k, c, h, w)

VALIDATION_SHARE = 0.1
MIN_IMAGES_TO_SPLIT = 4  # a class of fewer images needs them all for training
MIN_IMAGES_WITH_LEAVE_ONE_OUT = 40  # the same, where leaving one image out measures as well
MAX_VALIDATION_IMAGES = 100  # of each class
MIN_SHARE = 4
MAX_KEPT = 20  # of each class


def for_validation(labels: Tensor, keys: Tensor, *, least: int = MIN_IMAGES_TO_SPLIT) -> Tensor:
    """Return which images are for validation (n,), class by class: those with the smallest keys.

    The choice depends on the keys alone, which are taken from the images' content.

    Args:
        labels: class ids (n,).
        keys: (n,).
        least: images of a class from which some are for validation.
    """
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in torch.unique(labels).tolist():
        members = (labels == label).nonzero().flatten()
        if len(members) < least:
            continue
        count = min(max(1, round(VALIDATION_SHARE * len(members))), MAX_VALIDATION_IMAGES)
        chosen[members[keys[members].argsort(stable=True)[:count]]] = True
    return chosen


def validation_share(budget: int, classes: int) -> int:
    """Return how many validation images of each class are kept, of a budget for images in all."""
    per = budget // max(classes, 1)
    return min(max(1, per // 10), MAX_KEPT) if per >= MIN_SHARE else 0


def refresh(
    validation_images: Mapping[ClassId, Tensor], validation: ImageSet, *, share: int, seed: int, learn: int
) -> ValidationImages:
    """Return the validation images after a learn: arriving classes newly chosen, all cut to their share."""
    fresh = dict(validation_images)
    for label in torch.unique(validation.labels).tolist():
        arriving = validation.of_classes([label]).load()[0]
        pixels = torch.cat([validation_images[label], arriving]) if label in validation_images else arriving
        order = torch.randperm(len(pixels), generator=seeding.generator(seed, "held", learn, label))
        fresh[label] = pixels[order]
    return {label: pixels[:share].clone() for label, pixels in fresh.items() if share and len(pixels)}


def of_task(validation_images: Mapping[ClassId, Tensor], task_map: TaskMap, task: int) -> tuple[Tensor, Tensor] | None:
    """Return the validation images of a task and their class ids, or None if there are none."""
    members = [label for label in task_map.tasks[task] if label in validation_images]
    if not members:
        return None
    labels = torch.cat([torch.full((len(validation_images[label]),), label) for label in members])
    return torch.cat([validation_images[label] for label in members]), labels
