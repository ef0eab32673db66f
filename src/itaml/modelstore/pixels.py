"""One pixel format for each model: how images in other formats are converted to it, exactly or not at all.

| images                        | model of uint8             | model of floats 0..1 or 0..255 | model of other floats |
|-------------------------------|----------------------------|--------------------------------|-----------------------|
| files, PIL images, uint8      | as they are                | divided by 255, or as they are | refused               |
| floats 0..1, floats 0..255    | rounded, if that changes   | scaled                         | refused, where they   |
|                               | nothing; else refused      |                                | are of another scale  |
| other floats                  | refused                    | refused                        | as they are, if their |
|                               |                            |                                | range is like its own |

To predict, nothing is stored, so floats that are no multiples of 1/255 are not refused: a network sees uint8 divided by
255, and floats from 0 to 1 as they are, which is the same scale. In a model of other floats a single image may have no
negative values; it is refused if its values are those of uint8 images in the scale 0..1 or 0..255.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from itaml.errors import DataError
from itaml.modelstore.manifest import PixelFormat

BYTES = PixelFormat()
UNIT = PixelFormat(dtype="float32", white=1.0)
BYTE_FLOATS = PixelFormat(dtype="float32", white=255.0)
ANY_FLOATS = PixelFormat(dtype="float32", white=None)

SLACK = 1e-3  # by which floats may leave 0..1 and 0..255: interpolation overshoots
LEAST_BYTE = 2.0  # floats 0..255 have a maximum of at least this; between it and 1 nobody can tell
ON_GRID = 1e-3  # by which a float times 255 may differ from a whole number
LEAST_RANGE = 1 / 255  # of floats to learn from
MARGIN = 2.0  # by how many times the first learn's range later floats of such a model may leave it

Range = tuple[float, float]


def value_range(pixels: Tensor) -> Range:
    """Return the least and the greatest value; (0, 0) if there are none."""
    return (float(pixels.min()), float(pixels.max())) if pixels.numel() else (0.0, 0.0)


def float_format(values: Range) -> PixelFormat:
    """Return the format of floats in a range."""
    low, high = values
    if low >= -SLACK and high <= 1 + SLACK:
        return UNIT
    if low >= -SLACK and LEAST_BYTE <= high <= 255 + SLACK:
        return BYTE_FLOATS
    return ANY_FLOATS.model_copy(update={"span": values})


def format_of(pixels: Tensor) -> PixelFormat:
    """Return the format of stored pixels: of exemplars in a model folder that does not name it."""
    return float_format(value_range(pixels)) if pixels.is_floating_point() else BYTES


def on_grid(pixels: Tensor, given: PixelFormat) -> bool:
    """Whether floats are uint8 values in another scale."""
    if given.white is None:
        return False
    values = pixels * (255 / given.white)
    return bool(((values - values.round()).abs() <= ON_GRID).all())


def convert(pixels: Tensor, given: PixelFormat, wanted: PixelFormat) -> Tensor:
    """Return pixels of one format in another; the caller has checked that this is possible (`check_convertible`)."""
    if wanted.white is None or given == wanted:
        return pixels
    assert given.white is not None, "check_convertible refuses it"
    if wanted.dtype == "uint8":
        return (pixels * (255 / given.white)).round().clamp(0, 255).to(torch.uint8)
    values = pixels.float()
    if given.white == wanted.white:
        return values
    return values / 255 if wanted.white == 1 else values * wanted.white


def check_convertible(given: PixelFormat, wanted: PixelFormat, values: Range) -> None:
    """Refuse images whose scale cannot be brought to the model's.

    Raises:
        DataError: it cannot; the message says how the model's images are scaled.
    """
    if wanted.white is None and given.dtype == "uint8":
        raise DataError(
            "this model was made with floats of its own range, to which files and uint8 images cannot be converted; "
            "give float images scaled like those of its first learn"
        )
    if wanted.white is not None and given.white is None:
        low, high = values
        raise DataError(
            "this model takes uint8 images, or floats from 0 to 1 or from 0 to 255, and these floats go from "
            f"{low:.4g} to {high:.4g}; scale or clip them"
        )


def check_exact(pixels: Tensor, given: PixelFormat) -> None:
    """Refuse floats that a model of uint8 images cannot store as they are.

    Raises:
        DataError: they are not multiples of 1/255.
    """
    if not on_grid(pixels, given):
        scaled = "images * 255" if given.white == 1 else "images"
        raise DataError(
            "this model keeps uint8 images (fixed by its first learn), and these floats are not whole numbers of "
            f"1/255; convert them with ({scaled}).round().astype('uint8')"
        )


def check_same_scale(images: Sequence[Tensor], given: PixelFormat, wanted: PixelFormat, *, stored: bool) -> None:
    """Refuse floats that are not scaled like those of the first learn, in a model of floats of its own range.

    Args:
        images: all floats that were given together.
        given: their format.
        wanted: the model's; other models than those of floats of their own range are left alone.
        stored: they are to be learned, so none of them having a negative value is reason enough.

    Raises:
        DataError: they are of another scale.
    """
    if wanted.white is not None or wanted.span is None or not images:
        return
    low, high = wanted.span
    least, most = (min(float(part.min()) for part in images), max(float(part.max()) for part in images))
    slack = MARGIN * (high - low)
    other = least < low - slack or most > high + slack
    if low < -SLACK and given.white is not None:
        beyond = given.white == 1 or most > high + SLACK
        other = other or stored or (beyond and all(_from_bytes(part, given) for part in images))
    elif given.white == 1 and high > 255:
        other = other or any(bool((part != part.round()).any()) for part in images)
    if other:
        raise DataError(
            f"this model was made with floats from {low:.4g} to {high:.4g} (its first learn), and these go from "
            f"{least:.4g} to {most:.4g}; scale them like those"
        )


def _from_bytes(pixels: Tensor, given: PixelFormat) -> bool:
    """Whether floats are certainly scaled uint8 values; those scaled to -1..1 are odd multiples of 1/255."""
    values = (pixels * (255 / (given.white or 1))).round()
    return on_grid(pixels, given) and bool((values % 2 == 0).any()) and bool((values % 2 == 1).any())


def with_channels(pixels: Tensor, channels: int) -> Tensor:
    """Return images in grey or in colour."""
    if pixels.shape[1] == channels:
        return pixels
    if channels == 3:
        return pixels.expand(-1, 3, -1, -1).contiguous()
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]  # ITU-R 601
    grey = (pixels.float() * weights).sum(1, keepdim=True)
    return grey.round().to(torch.uint8) if pixels.dtype == torch.uint8 else grey
