"""Images that are never trained on: a validation split of what arrives, of which a few of each class are kept for good.

They measure what was forgotten. They count in the memory's budget: of a class's share of `per` images, one in ten is
for validation, none where the share is below four.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.images import ClassId, ImageSet
from itaml.models.table import TaskTable

Held = dict[ClassId, Tensor]  # class -> (k, c, h, w)

VALIDATION_SHARE = 0.1
FEWEST_VALIDATED = 4  # a class of fewer images needs them all for training
MOST_VALIDATED = 100  # of each class
FEWEST_SHARED = 4
MOST_HELD = 20  # of each class


def split(images: ImageSet, keys: Tensor) -> tuple[ImageSet, ImageSet]:
    """Divide images into training and validation, class by class: those with the smallest keys are for validation.

    The choice depends on the keys alone, which are taken from the images' content.
    """
    chosen = torch.zeros(len(images), dtype=torch.bool)
    for label in torch.unique(images.labels).tolist():
        members = (images.labels == label).nonzero().flatten()
        if len(members) < FEWEST_VALIDATED:
            continue
        count = min(max(1, round(VALIDATION_SHARE * len(members))), MOST_VALIDATED)
        chosen[members[keys[members].argsort(stable=True)[:count]]] = True
    return images.select((~chosen).nonzero().flatten()), images.select(chosen.nonzero().flatten())


def held_share(budget: int, classes: int) -> int:
    """Return how many validation images of each class are kept, of a budget for images in all."""
    per = budget // max(classes, 1)
    return min(max(1, per // 10), MOST_HELD) if per >= FEWEST_SHARED else 0


def refresh(held: Mapping[ClassId, Tensor], validation: ImageSet, *, share: int, seed: int, learn: int) -> Held:
    """Return the validation images after a learn: arriving classes chosen anew, all cut to their share."""
    fresh = dict(held)
    for label in torch.unique(validation.labels).tolist():
        arriving = validation.of_classes([label]).load()[0]
        pixels = torch.cat([held[label], arriving]) if label in held else arriving
        order = torch.randperm(len(pixels), generator=seeding.generator(seed, "held", learn, label))
        fresh[label] = pixels[order]
    return {label: pixels[:share].clone() for label, pixels in fresh.items() if share and len(pixels)}


def of_task(held: Mapping[ClassId, Tensor], table: TaskTable, task: int) -> tuple[Tensor, Tensor] | None:
    """Return the validation images of a task and their class ids, or None if there are none."""
    members = [label for label in table.tasks[task] if label in held]
    if not members:
        return None
    labels = torch.cat([torch.full((len(held[label]),), label) for label in members])
    return torch.cat([held[label] for label in members]), labels
