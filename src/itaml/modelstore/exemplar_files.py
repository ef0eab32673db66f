"""Exemplar images in files of their own, for models that learn from features and not from the images themselves.

They are WebP files in the model's folder `exemplars`, shared by all versions (see `shared_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from itaml.data.images import Shape
from itaml.data.webp import decode_webp, encode_webp
from itaml.modelstore.manifest import StoredImage
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.shared_files import exemplars

LOSSLESS_SIDE = 64  # smaller images are kept as they are: compression would blur them, and they need little room


def encode(image: Tensor) -> bytes:
    """Return an image (1 or 3, h, w) of uint8 as a WebP file."""
    return encode_webp(image, lossless=min(image.shape[1:]) < LOSSLESS_SIDE, effort=0)


def decode(path: Path, data: bytes, shape: Shape) -> Tensor:
    """Return the image (c, h, w) of uint8 that a file holds; `path` is for messages.

    Raises:
        CheckpointError: it is not an image of that shape.
    """
    return decode_webp(data, shape, source=str(path))


def read_file(folder: ModelFolder, image: StoredImage) -> bytes:
    """Read the file of an image and compare its checksum.

    Raises:
        CheckpointError: it is missing, unreadable, changed, or not a regular file.
    """
    return exemplars(folder.path).read(image.sha256, image.size)


def read_pixels(folder: ModelFolder, images: Iterable[StoredImage], shape: Shape, fresh: Mapping[str, bytes]) -> Tensor:
    """Return images (n, c, h, w); those in `fresh` need not be on disk yet (see `read_file` for errors)."""
    place = exemplars(folder.path)
    found = [
        decode(
            place.path_of(image.sha256),
            fresh[image.sha256] if image.sha256 in fresh else read_file(folder, image),
            shape,
        )
        for image in images
    ]
    return torch.stack(found) if found else torch.empty(0, *shape, dtype=torch.uint8)
