"""The images that a model keeps, as pixels with their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.memory.buffer import Memory
from itaml.modelstore.duplicates import exemplars_of
from itaml.modelstore.loaded_model import Model


@dataclass(frozen=True, eq=False)
class StoredPixels:
    """Images and their class ids."""

    pixels: Tensor  # (n, c, h, w)
    labels: Tensor  # (n,)

    def of_class(self, class_id: ClassId, limit: int) -> list[Tensor]:
        """Return the first images of a class."""
        return list(self.pixels[self.labels == class_id][:limit])


def stored_pixels(model: Model) -> tuple[StoredPixels, StoredPixels]:
    """Return the validation images and the exemplars of a model that has learned something."""
    return _joined(model, model.validation_images), _joined(model, exemplars_of(memory_of(model)))


def memory_of(model: Model) -> Memory:
    """Return the exemplars of a learner, none if it has no memory."""
    memory = getattr(model.learner, "memory", None)
    return memory if isinstance(memory, Memory) else Memory(budget=0)


def _joined(model: Model, images: Mapping[ClassId, Tensor]) -> StoredPixels:
    shape = model.manifest.shape or (0, 0, 0)
    labels = [torch.full((len(pixels),), class_id) for class_id, pixels in images.items()]
    return StoredPixels(
        torch.cat([torch.empty(0, *shape, dtype=torch.uint8), *images.values()]),
        torch.cat([torch.empty(0, dtype=torch.int64), *labels]),
    )
