"""Pictures in the shape that a model takes, from arrays or files; read into memory where they fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from itaml.data.files import BadImages, FileIndex, FilePixels
from itaml.data.images import ImageSet, Shape
from itaml.errors import DataError
from itaml.events import Event, Listener

IN_MEMORY = 1 << 30  # bytes of pixels; larger sets are decoded anew in every epoch
CHUNK = 256
TRIED = 8  # pictures of a class that are tried before all are, to see whether it has a readable one


@dataclass(frozen=True)
class PicturesRead(Event):
    """Some of the pictures to learn from have been read."""

    done: int
    total: int


def as_pixels(images: Any) -> Tensor:
    """Return pictures as a tensor (n, c, h, w) of bytes or floats.

    Raises:
        DataError: they are of another form.
    """
    if isinstance(images, Tensor):
        pixels = images
    else:
        array = np.asarray(images)
        if array.ndim not in (3, 4) or array.dtype == object:
            raise DataError(
                f"pictures in arrays are (n, height, width) or (n, height, width, channels), not {array.shape}"
            )
        pixels = torch.from_numpy(np.array(array if array.ndim == 4 else array[..., None])).permute(0, 3, 1, 2)
    if pixels.dim() != 4 or pixels.shape[1] not in (1, 3):
        raise DataError(f"pictures have 1 or 3 channels; an array of shape {tuple(images.shape)} has not")
    if pixels.is_floating_point():
        pixels = pixels.float()
        if not bool(torch.isfinite(pixels).all()):
            raise DataError("pictures of floats must not hold NaN or infinity")
    elif pixels.dtype != torch.uint8:
        raise DataError(f"pixels are bytes or floats, not {pixels.dtype}")
    return pixels.contiguous()


def with_channels(pixels: Tensor, channels: int) -> Tensor:
    """Return pictures as grey or in colour."""
    if pixels.shape[1] == channels:
        return pixels
    if channels == 3:
        return pixels.expand(-1, 3, -1, -1).contiguous()
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]  # ITU-R 601
    grey = (pixels.float() * weights).sum(1, keepdim=True)
    return grey.round().to(torch.uint8) if pixels.dtype == torch.uint8 else grey


@dataclass(frozen=True, eq=False)
class GreyPixels:
    """A pixel store of files, made grey for a model of grey pictures."""

    files: FilePixels

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return 1, *self.files.shape[1:]

    def __len__(self) -> int:
        return len(self.files)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Read the files and make them grey."""
        pixels, kept = self.files.read(rows)
        return with_channels(pixels, 1), kept


def files_as(index: FileIndex, labels: Tensor, shape: Shape) -> ImageSet:
    """Return picture files in a model's shape.

    Raises:
        DataError: the model takes pictures that are not square, which files are not brought to.
    """
    channels, height, width = shape
    if height != width:
        raise DataError(f"this model was made for arrays of {height} x {width} pixels; files become squares")
    files = FilePixels(index, height)
    return ImageSet(files if channels == 3 else GreyPixels(files), labels, torch.arange(len(labels)))


def unreadable(images: ImageSet) -> BadImages:
    """Return what could not be read so far of the files behind a set."""
    store = images.pixels.files if isinstance(images.pixels, GreyPixels) else images.pixels
    return store.bad if isinstance(store, FilePixels) else BadImages()


def into_memory(images: ImageSet, classes: Tensor, *, listen: Listener) -> ImageSet:
    """Return the pictures in memory if they fit, without unreadable ones; else as they are, less unreadable classes.

    Args:
        images: the pictures; their labels are passed through.
        classes: class of each picture (n,).
        listen: told how far reading has come.
    """
    if images.in_memory:
        return images
    if len(images) * int(np.prod(images.shape)) > IN_MEMORY:
        members = [(classes == label).nonzero().flatten() for label in torch.unique(classes)]
        return images.select(torch.cat([rows for rows in members if _readable(images.select(rows))]).sort().values)
    parts, done = [], 0
    for part in images.batches(CHUNK):
        parts.append(part)
        done = min(done + CHUNK, len(images))
        listen(PicturesRead(done, len(images)))
    pixels, labels = (torch.cat(column) for column in zip(*parts, strict=True))
    return ImageSet.from_arrays(pixels, labels)


def _readable(images: ImageSet) -> bool:
    """Say whether a class has a readable picture: nearly always seen from the first few."""
    first = images.batch(torch.arange(len(images))[:TRIED])[1]
    return len(first) > 0 or any(len(labels) for _, labels in images.batches(CHUNK))
