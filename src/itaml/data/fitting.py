"""How an image of any size becomes a square of a wanted side: which part of it, and how it is resampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PIL import Image

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
METHODS: dict[Interpolation, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
GAP = 3  # an image is reduced by whole factors to this many times the wanted side, and then resampled


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

    def box(self, source: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return the centre (left, top, right, bottom) of an image (width, height) in the proportions of `target`."""
        if target[0] == target[1]:
            width = height = min(source) * self.crop
        else:
            scale = min(source[0] / target[0], source[1] / target[1]) * self.crop
            width, height = target[0] * scale, target[1] * scale
        left, top = max(0.0, (source[0] - width) / 2), max(0.0, (source[1] - height) / 2)
        return left, top, min(left + width, source[0]), min(top + height, source[1])  # but for rounding

    def resample(self, image: Image.Image, target: tuple[int, int]) -> Image.Image:
        """Return the centre of an image at a size (width, height); an image that fits as it is is left alone."""
        if image.size == target and self.crop == 1:
            return image
        box = self.box(image.size, target)
        gap = None if self.interpolation == "nearest" else float(GAP)
        return image.resize(target, METHODS[self.interpolation], box=box, reducing_gap=gap)


PLAIN = Fitting()  # the whole centre square, bilinear
