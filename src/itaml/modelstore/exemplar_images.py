"""The exemplars of a model as images, wherever they are kept."""

from __future__ import annotations

import math

from torch import Tensor

from itaml.data.images import ClassId
from itaml.errors import CheckpointError
from itaml.modelstore.duplicates import exemplars_of
from itaml.modelstore.exemplar_files import read_pixels
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import StoredImage
from itaml.modelstore.model_folder import ModelFolder

LIMIT = 2 << 30  # bytes of decoded images: a small file can name many large ones


def exemplar_images(
    model: Model, folder: ModelFolder, *, limit: int | None = None, kind: str = "exemplar"
) -> dict[ClassId, Tensor]:
    """Return images of each class (k, c, h, w), in the model's shape.

    Args:
        model: in memory.
        folder: where its files are.
        limit: most images of each class; all if None.
        kind: `exemplar`, or `validation` for the validation images.

    Raises:
        CheckpointError: a file is missing or damaged, or the images take too much memory.
    """
    if model.learner is None:
        return {}
    if model.memory is not None:
        images = exemplars_of(model.memory) if kind == "exemplar" else model.validation_images
        return {label: pixels[:limit] for label, pixels in images.items()}
    assert model.manifest.shape is not None
    shape = model.manifest.shape
    stored: dict[ClassId, list[StoredImage]] = {}
    for image in model.manifest.stored_images:
        if image.kind == kind:
            stored.setdefault(image.label, []).append(image)
    count = sum(len(images[:limit]) for images in stored.values())
    if count * math.prod(shape) > LIMIT:
        raise CheckpointError(
            f"{folder.path} keeps {count} images of {shape[2]} x {shape[1]} pixels, more than fit into {LIMIT >> 20} MB"
        )
    return {label: read_pixels(folder, images[:limit], shape, model.files) for label, images in stored.items()}
