"""What a learn is given: class folders or arrays, brought into one form."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from itaml.data.decode import decode, open_image
from itaml.data.files import FileIndex, list_pictures
from itaml.data.images import ImageSet, Shape
from itaml.data.sources.folder import class_folders
from itaml.errors import DataError
from itaml.library.choose import Look
from itaml.library.names import check_names
from itaml.library.pixels import as_pixels, files_as, with_channels

LOOKED_AT = 200  # pictures that size and colour are judged by
LOOKED_SIDE = 16  # at which colour is judged
GREY_NOISE = 8  # by which the colours of a grey JPEG may differ


class Gathered(Protocol):
    """Labelled pictures whose size is still open."""

    @property
    def names(self) -> tuple[str, ...]:
        """Class names; labels count along them."""

    @property
    def notes(self) -> list[str]:
        """What was left out, in sentences."""

    def look(self) -> Look:
        """Judge by some of the pictures what they look like."""

    def shape(self, size: int) -> Shape:
        """Return the shape that a new model for these pictures has, if pictures in files get side `size`."""

    def images(self, shape: Shape) -> ImageSet:
        """Return the pictures in a model's shape."""

    def keys(self) -> Tensor:
        """Return a number (n,) for each picture that does not change when pictures are added."""


@dataclass(frozen=True, eq=False)
class GatheredFiles:
    """Pictures in class folders."""

    names: tuple[str, ...]
    index: FileIndex
    labels: Tensor  # (n,)
    notes: list[str] = field(default_factory=list)

    def look(self) -> Look:
        """Read the headers of some pictures, spread evenly, and the pixels of a few."""
        rows = np.unique(np.linspace(0, len(self.index) - 1, min(LOOKED_AT, len(self.index))).astype(int))
        seen = [found for row in rows.tolist() if (found := _look(self.index.path(row))) is not None]
        if not seen:
            raise DataError(f"none of the pictures can be read, such as {self.index.path(0)}")
        sides = sorted(side for side, _ in seen)
        return Look(len(self.index), sides[len(sides) // 2], all(grey for _, grey in seen))

    def shape(self, size: int) -> Shape:
        """Return a square of colours."""
        return 3, size, size

    def images(self, shape: Shape) -> ImageSet:
        """Return the pictures, decoded when they are asked for."""
        return files_as(self.index, self.labels, shape)

    def keys(self) -> Tensor:
        """Return the CRC-32 of each file's name."""
        return torch.tensor([zlib.crc32(os.fsencode(self.index.name(row))) for row in range(len(self.index))])


@dataclass(frozen=True, eq=False)
class GatheredArrays:
    """Pictures in memory."""

    names: tuple[str, ...]
    pixels: Tensor  # (n, c, h, w)
    labels: Tensor  # (n,)
    notes: list[str] = field(default_factory=list)

    def look(self) -> Look:
        """Judge by their shape alone."""
        return Look(len(self.pixels), min(self.pixels.shape[2:]), self.pixels.shape[1] == 1)

    def shape(self, size: int) -> Shape:
        """Return the arrays' own shape."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    def images(self, shape: Shape) -> ImageSet:
        """Return the pictures, grey or in colour as the model takes them."""
        return ImageSet.from_arrays(with_channels(self.pixels, shape[0]), self.labels)

    def keys(self) -> Tensor:
        """Return the CRC-32 of each picture's pixels."""
        return torch.tensor([zlib.crc32(picture.contiguous().numpy().tobytes()) for picture in self.pixels])


def gather_folders(folders: Sequence[Path]) -> GatheredFiles:
    """Index the class folders in `folders`; a class that is in several is joined.

    Raises:
        DataError: a folder is missing or has no class folders, there are no pictures, or names are too alike.
    """
    places: dict[str, list[Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise DataError(f"{folder} {what}; give a folder with one folder of pictures for each class")
        for entry in class_folders(folder):
            places.setdefault(entry.name, []).append(entry.train)
    check_names(places)
    listed = {name: [(str(place), _pictures(place)) for place in found] for name, found in sorted(places.items())}
    kept = {name: parts for name, parts in listed.items() if any(files for _, files in parts)}
    notes = [f"class folder {name!r} has no pictures and was left out" for name in listed if name not in kept]
    if not kept:
        raise DataError(f"there are no pictures in the class folders of {', '.join(map(str, folders))}")
    counts = [sum(len(files) for _, files in parts) for parts in kept.values()]
    index = FileIndex.build(part for parts in kept.values() for part in parts)
    labels = torch.repeat_interleave(torch.arange(len(kept)), torch.tensor(counts))
    return GatheredFiles(tuple(kept), index, labels, notes)


def gather_arrays(images: Any, labels: Sequence[Any]) -> GatheredArrays:
    """Take pictures (n, h, w[, c]) as numpy, or (n, c, h, w) as a tensor, with a name or number each.

    Raises:
        DataError: they are not pictures, or the labels do not fit.
    """
    pixels = as_pixels(images)
    words = [str(label) for label in np.asarray(labels).tolist()]
    if len(words) != len(pixels):
        raise DataError(f"{len(pixels)} pictures but {len(words)} labels")
    if not words:
        raise DataError("there are no pictures to learn from")
    names = tuple(dict.fromkeys(sorted(words)))
    check_names(names)
    number = {name: label for label, name in enumerate(names)}
    return GatheredArrays(names, pixels, torch.tensor([number[word] for word in words]))


def gather(data: Any, labels: Sequence[Any] | None) -> Gathered:
    """Take what `Library.learn` was given: one folder or several, or pictures with labels.

    Raises:
        DataError: it is none of these, or see `gather_folders` and `gather_arrays`.
    """
    if isinstance(data, str | os.PathLike):
        data = [data]
    if labels is not None:
        return gather_arrays(data, labels)
    if isinstance(data, list | tuple) and data and all(isinstance(part, str | os.PathLike) for part in data):
        return gather_folders([Path(part) for part in data])
    raise DataError("give a folder of class folders, or pictures with a label each")


def _pictures(folder: Path) -> list[str]:
    try:
        return list_pictures(str(folder))
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {(error.strerror or str(error)).lower()}") from error


def _look(path: str) -> tuple[int, bool] | None:
    """Return a picture's shorter side and whether it has no colours; None if it cannot be read."""
    try:
        with open_image(path) as image:
            side = min(image.size)
        small = decode(path, size=LOOKED_SIDE).astype(np.int16)
    except Exception:  # decode says why, when the picture is read to learn from it
        return None
    return side, bool((np.abs(small - small[..., :1]) <= GREY_NOISE).all())
