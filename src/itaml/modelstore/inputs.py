"""`Inputs`: images in files and in memory, of any size, in order, and the same images in a model's shape and format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from itaml.data.decoding import MAX_PIXELS, open_image
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.image_files import BadImages, FileIndex, FilePixels
from itaml.data.images import ImageSet, PixelStore, Shape, join
from itaml.errors import DataError
from itaml.modelstore.image_arrays import resized
from itaml.modelstore.manifest import PixelFormat
from itaml.modelstore.pixels import (
    BYTES,
    UNIT,
    Range,
    check_convertible,
    check_exact,
    check_same_scale,
    convert,
    float_format,
    on_grid,
    value_range,
    with_channels,
)

GREY_MODES = ("1", "L", "LA", "La")
SAMPLED_IMAGES = 200  # files whose headers are read to judge their size
KEPT_SIDE = 64  # arrays of one size keep it up to this side; larger ones are scaled like files

Part = Tensor | FileIndex  # images in memory (n, c, h, w), or files


@dataclass(frozen=True, eq=False)
class ConvertedPixels:
    """A pixel store of files, brought to a model's channels and pixel format."""

    files: FilePixels
    channels: int
    wanted: PixelFormat

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return self.channels, *self.files.shape[1:]

    def __len__(self) -> int:
        return len(self.files)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Read the files and convert them."""
        pixels, kept = self.files.read(rows)
        return convert(with_channels(pixels, self.channels), BYTES, self.wanted), kept


@dataclass(frozen=True, eq=False)
class Inputs:
    """Images in the order in which they were given."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()  # about files that were left out

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def arrays(self) -> list[Tensor]:
        """The parts in memory."""
        return [part for part in self.parts if isinstance(part, Tensor)]

    @property
    def indexes(self) -> list[FileIndex]:
        """The parts in files."""
        return [part for part in self.parts if isinstance(part, FileIndex)]

    def files(self) -> list[str | None]:
        """Return the path of each image, None for those in memory."""
        return [
            path
            for part in self.parts
            for path in (
                [None] * len(part) if isinstance(part, Tensor) else [part.path(row) for row in range(len(part))]
            )
        ]

    @cached_property
    def float_range(self) -> Range | None:
        """Return the range of all float images together, None if there are none."""
        ranges = [value_range(part) for part in self.arrays if part.is_floating_point() and len(part)]
        return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

    def given_format(self, part: Part) -> PixelFormat:
        """Return the format of a part; floats are judged by the range of all floats that were given together."""
        if isinstance(part, FileIndex) or not part.is_floating_point():
            return BYTES
        return float_format(self.float_range or (0.0, 0.0))

    def new_format(self) -> PixelFormat:
        """Return the pixel format of a model whose first images these are.

        Raises:
            DataError: floats whose scale is not known are mixed with files or uint8 images.
        """
        given = [self.given_format(part) for part in self.parts]
        floats = next((form for form in given if form.dtype == "float32"), None)
        if floats is None:
            return BYTES
        if BYTES not in given:
            return floats
        if floats.white is None:
            check_convertible(floats, BYTES, self.float_range or (0.0, 0.0))
        exact = all(on_grid(part, floats) for part in self.arrays if part.is_floating_point())
        return BYTES if exact else UNIT

    def new_shape(self, size: int | None, chosen: int) -> Shape:
        """Return the shape of a model whose first images these are: small arrays of one size keep it.

        Args:
            size: the side that the user fixed, if any.
            chosen: the side for images that do not keep their size.
        """
        channels = 1 if not self.indexes and all(part.shape[1] == 1 for part in self.arrays) else 3
        sizes = {tuple(part.shape[2:]) for part in self.arrays}
        if size is None and not self.indexes and len(sizes) == 1:
            height, width = sizes.pop()
            if max(height, width) <= KEPT_SIDE:
                return channels, height, width
        return channels, chosen, chosen

    @cached_property
    def median_side(self) -> int:
        """Return the median of the shorter sides, from headers of some of the files.

        Raises:
            DataError: none of the files can be read.
        """
        sides = [min(part.shape[2:]) for part in self.arrays for _ in range(min(len(part), SAMPLED_IMAGES))]
        sides += [side for side, _ in self._headers]
        if not sides:
            first = self.indexes[0].path(0)
            raise DataError(f"none of the images can be read, such as {first}; are they images?")
        return sorted(sides)[len(sides) // 2]

    @property
    def grey(self) -> bool:
        """Whether all arrays have one channel, and all of the files that were looked at say so in their headers."""
        return all(part.shape[1] == 1 for part in self.arrays) and all(grey for _, grey in self._headers)

    @cached_property
    def _headers(self) -> list[tuple[int, bool]]:
        """Shorter side of some of the files, and whether they are grey."""
        found = []
        for index in self.indexes:
            rows = np.unique(np.linspace(0, len(index) - 1, min(SAMPLED_IMAGES, len(index))).astype(int))
            found += [header for row in rows.tolist() if (header := _header(index.path(row))) is not None]
        return found

    def images(
        self, labels: Tensor, shape: Shape, wanted: PixelFormat, *, exact: bool, fitting: Fitting = PLAIN
    ) -> ImageSet:
        """Return the images in a model's shape and pixel format; files are decoded when they are read.

        Args:
            labels: class ids (n,).
            shape: the model's.
            wanted: the model's pixel format.
            exact: refuse what a model of uint8 images could only round, because it is to be stored.
            fitting: how images are brought to the shape.

        Raises:
            DataError: the images cannot be converted.
        """
        values = self.float_range or (0.0, 0.0)
        for part in self.parts:
            check_convertible(self.given_format(part), wanted, values)
        floats = [part for part in self.arrays if part.is_floating_point() and len(part)]
        given = float_format(values)
        check_same_scale(floats, given, wanted, stored=exact)
        if wanted == BYTES and floats:
            if exact:
                for part in floats:
                    check_exact(part, given)
            elif not all(on_grid(part, given) for part in floats):
                wanted = UNIT  # what a network sees is the same
        sets, start = [], 0
        for part in self.parts:
            sets.append(self._set(part, labels[start : start + len(part)], shape, wanted, fitting))
            start += len(part)
        return join(sets)

    def _set(self, part: Part, labels: Tensor, shape: Shape, wanted: PixelFormat, fitting: Fitting) -> ImageSet:
        channels, height, width = shape
        if isinstance(part, FileIndex):
            if height != width:
                raise DataError(f"this model was made for arrays of {height} x {width} pixels; files become squares")
            files = FilePixels(part, height, fitting=fitting)
            store: PixelStore = files if (channels, wanted) == (3, BYTES) else ConvertedPixels(files, channels, wanted)
            return ImageSet(store, labels, torch.arange(len(part)))
        given = self.given_format(part)
        pixels = with_channels(resized(part, height, width, fitting), channels)
        return ImageSet.from_arrays(convert(pixels, given, wanted).contiguous(), labels)


def unreadable(images: ImageSet) -> BadImages:
    """Return what could not be read so far of the files behind a set."""
    total = BadImages()
    stores = getattr(images.pixels, "parts", (images.pixels,))
    for store in stores:
        files = store.files if isinstance(store, ConvertedPixels) else store
        if isinstance(files, FilePixels):
            total.count += files.bad.count
            total.entries += files.bad.entries
    return total


def _header(path: str) -> tuple[int, bool] | None:
    """Return the shorter side of an image file and whether it is grey, None if it cannot be read.

    Why it cannot be read is said when it is decoded.
    """
    try:
        with open_image(path) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            return min(image.size), image.mode in GREY_MODES or image.mode.startswith("I")
    except Exception:  # on hostile bytes Pillow's readers raise nearly anything
        return None
