"""How an image of any size becomes a square of a wanted side: which part of it, and how it is resampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from PIL import Image

Box = tuple[float, float, float, float]  # left, top, right, bottom
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
METHODS: dict[Interpolation, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
SUPPORT = 3  # of the widest filter (lanczos), in pixels of the result


@dataclass(frozen=True)
class Fitting:
    """What a pretrained backbone was trained on.

    Args:
        interpolation: how images are resampled.
        crop: side of the centre square that is kept, as a share of the image's shorter side.
    """

    interpolation: Interpolation = "bilinear"
    crop: float = 1.0

    def source_side(self, size: int) -> int:
        """Return the shorter side that an image needs so that a square of `size` is not magnified."""
        return round(size / self.crop)

    def box(self, source: tuple[int, int], target: tuple[int, int]) -> Box:
        """Return the centre (left, top, right, bottom) of an image (width, height) in the proportions of `target`."""
        if target[0] == target[1]:
            width = height = min(source) * self.crop
        else:
            scale = min(source[0] / target[0], source[1] / target[1]) * self.crop
            width, height = target[0] * scale, target[1] * scale
        left, top = max(0.0, (source[0] - width) / 2), max(0.0, (source[1] - height) / 2)
        return left, top, min(left + width, source[0]), min(top + height, source[1])  # but for rounding

    def resample(self, image: Image.Image, target: tuple[int, int], *, turned: bool = False) -> Image.Image:
        """Return the centre of an image at a size (width, height); an image that fits as it is is left alone.

        Pillow's choice of whether rows or columns are scaled first depends on its version, and so would a level of
        some pixels; here rows always come first. Exported networks do the same (`exchange.resampling`).

        Args:
            image: the image.
            target: the size.
            turned: rows will become columns afterwards, so columns come first.
        """
        if image.size == target and self.crop == 1:
            return image
        box, method = self.box(image.size, target), METHODS[self.interpolation]
        for axis in (1, 0) if turned else (0, 1):
            image, box = _along(image, axis, target[axis], box, method)
        return image


def _along(image: Image.Image, axis: int, size: int, box: Box, method: Image.Resampling) -> tuple[Image.Image, Box]:
    """Scale an image along one axis (0: each row); return it and what is left of the box along the other.

    Lines on which the box does not depend are left out, so that a very long image takes no more memory than it has.
    """
    across = 1 - axis
    margin = SUPPORT * max(1.0, (box[2 + axis] - box[axis]) / size) + 1  # both axes have one scale
    first = max(0, math.floor(box[across] - margin))
    last = min(image.size[across], math.ceil(box[2 + across] + margin))
    part, rest = list(box), list(box)
    part[across], part[2 + across] = first, last
    rest[axis], rest[2 + axis] = 0, size
    rest[across], rest[2 + across] = box[across] - first, box[2 + across] - first
    sides = (size, last - first) if axis == 0 else (last - first, size)
    return image.resize(sides, method, box=_box(part)), _box(rest)


def _box(values: list[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom


PLAIN = Fitting()  # the whole centre square, bilinear
