"""The images that a model keeps, as pixels with their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.modelstore.exemplar_images import exemplar_images
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.model_folder import ModelFolder


@dataclass(frozen=True, eq=False)
class StoredPixels:
    """Images and their class ids."""

    pixels: Tensor  # (n, c, h, w)
    labels: Tensor  # (n,)

    def of_class(self, class_id: ClassId, limit: int) -> list[Tensor]:
        """Return the first images of a class."""
        return list(self.pixels[self.labels == class_id][:limit])


def stored_pixels(model: Model, folder: ModelFolder, *, limit: int) -> tuple[StoredPixels, StoredPixels]:
    """Return the validation images, and at most `limit` exemplars of each class, of a model that has learned.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    validation = exemplar_images(model, folder, kind="validation")
    return _joined(model, validation), _joined(model, exemplar_images(model, folder, limit=limit))


def _joined(model: Model, images: Mapping[ClassId, Tensor]) -> StoredPixels:
    shape = model.manifest.shape or (0, 0, 0)
    labels = [torch.full((len(pixels),), class_id) for class_id, pixels in images.items()]
    return StoredPixels(
        torch.cat([torch.empty(0, *shape, dtype=torch.uint8), *images.values()]),
        torch.cat([torch.empty(0, dtype=torch.int64), *labels]),
    )
