"""Find the classes of which no image can be read, before anything is trained on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.data.loader import in_memory
from itaml.data.ownership import read_together

BATCH = 64  # images decoded at once
MOST = 64  # images of one class tried in one round


def unreadable_classes(images: ImageSet, classes: Sequence[ClassId]) -> list[ClassId]:
    """Return those of `classes` of which not one image can be read, in the order given.

    One image of each class is decoded, and more only of classes whose first images cannot be read. Images in memory are
    always readable.

    Raises:
        DataError: an image is unreadable and the set was made to fail then.
    """
    waiting = _positions(images)
    unreadable = {class_id for class_id in classes if class_id not in waiting}
    waiting = {class_id: waiting[class_id] for class_id in classes if class_id in waiting}
    if in_memory(images):
        waiting = {}
    count = 1
    while waiting:
        found = _readable(images, torch.cat([positions[:count] for positions in waiting.values()]))
        waiting = {class_id: positions[count:] for class_id, positions in waiting.items() if class_id not in found}
        unreadable |= {class_id for class_id, positions in waiting.items() if not len(positions)}
        waiting = {class_id: positions for class_id, positions in waiting.items() if len(positions)}
        count = min(2 * count, MOST)
    return [class_id for class_id in classes if class_id in unreadable]


def _positions(images: ImageSet) -> dict[ClassId, Tensor]:
    """Return the positions of each class that the set has images of."""
    order = images.labels.argsort(stable=True)
    found, counts = images.labels[order].unique_consecutive(return_counts=True)
    return dict(zip(found.tolist(), order.split(counts.tolist()), strict=True))


def _readable(images: ImageSet, positions: Tensor) -> set[ClassId]:
    """Return the classes of those images at `positions` that can be read."""
    return {class_id for part in positions.split(BATCH) for class_id in read_together(images, part)[1].tolist()}
