"""`ImageSet`: labelled images, held in memory or decoded when they are asked for.

Shapes: an image is (channels, height, width); pixels are uint8 in 0..255 (or float32, taken as they are).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from itaml.errors import DataError

ClassId = int
Shape = tuple[int, int, int]


class PixelStore(Protocol):
    """Where pixels are. A store may fail to read an image, and then leaves it out of the answer."""

    @property
    def shape(self) -> Shape:
        """Shape of one image."""

    def __len__(self) -> int: ...

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels of `rows` (k, c, h, w) and which positions of `rows` they are (k,)."""


@dataclass(frozen=True, eq=False)
class ArrayPixels:
    """Pixels in memory."""

    values: Tensor  # (n, c, h, w)

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        channels, height, width = self.values.shape[1:]
        return channels, height, width

    def __len__(self) -> int:
        return len(self.values)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels of `rows`; nothing in memory is unreadable."""
        return self.values[rows], torch.arange(len(rows))


@dataclass(frozen=True, eq=False)
class JoinedPixels:
    """Several stores one after another, as one."""

    parts: tuple[PixelStore, ...]

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return self.parts[0].shape

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Read from each part what lies in it, and put the answers back in the order asked for."""
        pixels, kept, start = [], [], 0
        for part in self.parts:
            wanted = ((rows >= start) & (rows < start + len(part))).nonzero().flatten()
            if len(wanted):
                values, readable = part.read(rows[wanted] - start)
                pixels.append(values)
                kept.append(wanted[readable])
            start += len(part)
        if not pixels:
            return torch.empty(0, *self.shape, dtype=torch.uint8), torch.empty(0, dtype=torch.int64)
        order = torch.cat(kept).argsort()
        return torch.cat(pixels)[order], torch.cat(kept)[order]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images: rows of a pixel store, with a class id each. Slicing copies no pixels."""

    pixels: PixelStore
    labels: Tensor  # (n,) int64 class ids
    rows: Tensor  # (n,) int64 rows of `pixels`

    @classmethod
    def from_arrays(cls, images: Tensor, labels: Tensor | Sequence[int]) -> ImageSet:
        """Make a set of images (n, c, h, w), uint8 or float32, and their class ids.

        Raises:
            DataError: the two do not fit each other, or the images are of another type.
        """
        labels = torch.as_tensor(labels, dtype=torch.int64)
        if images.dim() != 4:
            raise DataError(f"images must be (n, channels, height, width), not of shape {tuple(images.shape)}")
        if images.dtype not in (torch.uint8, torch.float32):
            raise DataError(f"images must be uint8 or float32, not {images.dtype}")
        if len(images) != len(labels):
            raise DataError(f"{len(images)} images but {len(labels)} labels")
        return cls(ArrayPixels(images), labels, torch.arange(len(labels)))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return self.pixels.shape

    @property
    def in_memory(self) -> bool:
        """Whether reading costs no decoding."""
        return isinstance(self.pixels, ArrayPixels)

    def select(self, positions: Tensor) -> ImageSet:
        """Return the images at `positions`, in that order."""
        return ImageSet(self.pixels, self.labels[positions], self.rows[positions])

    def numbered(self) -> ImageSet:
        """Return the same images with their positions for labels, to tell which ones a batch holds."""
        return ImageSet(self.pixels, torch.arange(len(self)), self.rows)

    def of_classes(self, classes: Iterable[ClassId]) -> ImageSet:
        """Return the images of the given classes, in the order they have here."""
        wanted = torch.isin(self.labels, torch.tensor(sorted(classes), dtype=torch.int64))
        return self.select(wanted.nonzero().flatten())

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images (k, c, h, w) and labels (k,) at `positions`; unreadable images are left out."""
        images, kept = self.pixels.read(self.rows[positions])
        return images, self.labels[positions[kept]]

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images in order, `size` at a time."""
        for positions in torch.arange(len(self)).split(size):
            yield self.batch(positions)

    def load(self) -> tuple[Tensor, Tensor]:
        """Read everything into memory."""
        return self.batch(torch.arange(len(self)))


def join(sets: Sequence[ImageSet]) -> ImageSet:
    """Return the images of several sets one after another, without copying pixels.

    Raises:
        DataError: the images differ in shape.
    """
    sets = [part for part in sets if len(part)] or list(sets[:1])
    if len(sets) == 1:
        return sets[0]
    shapes = {part.shape for part in sets}
    if len(shapes) > 1:
        raise DataError(f"images of different shapes cannot be joined: {sorted(shapes)}")
    starts = torch.tensor([0, *(len(part.pixels) for part in sets[:-1])]).cumsum(0).tolist()
    return ImageSet(
        JoinedPixels(tuple(part.pixels for part in sets)),
        torch.cat([part.labels for part in sets]),
        torch.cat([part.rows + start for part, start in zip(sets, starts, strict=True)]),
    )
