"""Turn one picture file into RGB pixels at a wanted side, whatever its kind, or say why that cannot be done.

| picture | what happens |
|---|---|
| JPEG | decoded at the smallest of its scales that is not below the wanted side (Pillow's draft mode) |
| palette, grey, CMYK, YCbCr | converted to RGB |
| alpha, or a transparent colour | composited on white |
| 16-bit grey | divided by 257, so that 65535 becomes 255 and nothing is clipped |
| EXIF orientation | applied |
| more than `MAX_PIXELS` pixels | refused before decoding |
| floating-point pixels | refused: their range is not known |
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from itaml.errors import DataError

MAX_PIXELS = 80_000_000  # 240 MB as RGB; below the number at which Pillow itself warns of a decompression bomb
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2")
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000")  # no format that runs a program (EPS, PDF)

ORIENTATION = 0x0112  # the EXIF tag
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

Pixels = npt.NDArray[np.uint8]


class BadImageError(DataError):
    """A picture that cannot be read: which, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason


def decode(path: str, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> Pixels:
    """Return the pixels of a file as RGB (height, width, 3).

    Args:
        path: the file.
        size: side of the square returned: the picture's centre square, scaled. None keeps the picture as it is.
        max_pixels: pictures with more are refused.

    Raises:
        BadImageError: the file is missing, not a picture, broken, or too large.
    """
    try:
        return _decode(path, size, max_pixels)
    except Exception as error:  # on hostile bytes Pillow's readers raise nearly anything; all of it means: unreadable
        raise BadImageError(path, _reason(error)) from error


def _decode(path: str, size: int | None, max_pixels: int) -> Pixels:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):  # a named pipe would block for ever
        raise ValueError("not a regular file")
    if found.st_size == 0:
        raise ValueError("the file is empty")
    with Image.open(path, formats=_formats()) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise ValueError(f"{width} x {height} pixels are more than the limit of {max_pixels}")
        if size is not None:
            image.draft(None, (size, size))
        image.load()
        turn = _TURNS.get(image.getexif().get(ORIENTATION, 1))  # after loading: TIFF turns itself and drops the tag
        picture = to_rgb(image)
    if size is not None:
        picture = fit(picture, size)  # a centre square stays one when it is turned, so the small picture is turned
    return np.asarray(picture if turn is None else picture.transpose(turn))


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert a picture of any mode to RGB with 8 bits a channel (see the table above).

    Raises:
        ValueError: there is no right way to do that.
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    if image.mode.startswith("I"):
        return _from_wide(image).convert("RGB")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
    return image.convert("RGB")


def fit(image: Image.Image, size: int) -> Image.Image:
    """Scale the centre square of a picture to `size` by `size`; a picture of that size is left alone."""
    width, height = image.size
    if (width, height) == (size, size):
        return image
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BILINEAR, box=box, reducing_gap=3.0)


def _from_wide(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64)  # "I;16" and its byte orders; "I" is what old Pillows make of 16 bits
    if values.size and not 0 <= values.min() <= values.max() <= 65535:
        raise ValueError("pixels of more than 16 bits have no known range")
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not a picture in a known format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # a Pillow may be built without some
