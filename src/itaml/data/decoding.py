"""Turn one image file into RGB pixels at a wanted side, whatever its kind, or say why that cannot be done.

| image | what happens |
|---|---|
| JPEG, JPEG 2000 of more than `FULL_SCALE` pixels | decoded at the smallest scale that is not below the wanted side |
| palette, grey, CMYK, YCbCr | converted to RGB |
| alpha, or a transparent colour | composited on white |
| 16-bit grey | divided by 257, so that 65535 becomes 255 and nothing is clipped |
| EXIF orientation | applied |
| more than `MAX_PIXELS` pixels, or `MAX_MEMORY` bytes to decode them | refused before decoding |
| floating-point pixels | refused: their range is not known |

Large images are converted in bands, each reduced before the next is taken, so that besides the decoded image there is
never a second one of its size.
"""

from __future__ import annotations

import ctypes
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError, _imaging

from itaml.data.decode_memory import HEAD, MAX_MEMORY, estimate, reserved, resolutions
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.pillow_warnings import no_pillow_warnings
from itaml.errors import DataError, UnsafeFileError
from itaml.storage import open_regular

MAX_PIXELS = 80_000_000  # 320 MB as RGB; below the number at which Pillow itself warns of a decompression bomb
MAX_FILE = 1_000_000_000  # bytes
FULL_SCALE = 1_000_000  # pixels up to which JPEG is decoded as every other program does it: to the same pixels
LARGE = 4_000_000  # pixels from which an image is converted in bands
BAND = 1_000_000  # pixels of a band
GAP = 3  # a large image is reduced by a whole factor to this many times the wanted side, and then resampled
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".jp2")
HEIF_EXTENSIONS = (".heic", ".heif")  # with the optional package pillow-heif
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
_ON_ITS_SIDE = [_TURNS[number] for number in (5, 6, 7, 8)]

Pixels = npt.NDArray[np.uint8]
Source = str | bytes  # the path of a file, or what is in it


class BadImageError(DataError):
    """An image that cannot be read: which, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason


def decode(
    source: Source, *, size: int | None = None, fitting: Fitting = PLAIN, max_pixels: int = MAX_PIXELS
) -> Pixels:
    """Return the pixels of a file as RGB (height, width, 3).

    Args:
        source: the file, or its bytes.
        size: side of the square returned: the image's centre square, scaled. None keeps the image as it is.
        fitting: how large the centre square is, and how it is scaled.
        max_pixels: images with more are refused.

    Raises:
        BadImageError: the file is missing, not an image, broken, or too large.
    """
    try:
        return _decode(source, size, fitting, max_pixels)
    except Exception as error:  # on hostile bytes Pillow's readers raise nearly anything; all of it means: unreadable
        raise BadImageError(source if isinstance(source, str) else "an image", _reason(error)) from error


@contextmanager
def open_image(source: Source) -> Iterator[Image.Image]:
    """Open an image file, or its bytes, without decoding it, inside the block.

    Raises:
        UnsafeFileError: it is not a regular file, or too large.
        OSError: it is missing, or not an image (and whatever else Pillow raises on broken files).
    """
    with _open(source) as file:
        if file.seek(0, os.SEEK_END) == 0:
            raise ValueError("the file is empty")
        file.seek(0)
        with no_pillow_warnings(), Image.open(file, formats=_formats()) as image:
            yield image


def _open(source: Source) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else open_regular(os.path.realpath(source), limit=MAX_FILE)


def _decode(source: Source, size: int | None, fitting: Fitting, max_pixels: int) -> Pixels:
    with open_image(source) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise ValueError(f"{width} x {height} pixels are more than the limit of {max_pixels}")
        side = None if size is None else fitting.source_side(size)
        needed = estimate(image, scale=_set_scale(image, source, side))
        if needed > MAX_MEMORY:
            raise ValueError(
                f"{width} x {height} pixels of {image.format} take {needed // 10**6} MB to decode, "
                f"more than the limit of {MAX_MEMORY // 10**6}"
            )
        with reserved(needed):
            image.load()
            turn = _TURNS.get(image.getexif().get(ORIENTATION, 1))  # after loading: TIFF turns itself, drops the tag
            small = in_bands(image, side) if image.width * image.height > LARGE else to_rgb(image)
            if size is not None:  # a centre square stays one when it is turned
                small = fitting.resample(small, (size, size), turned=turn in _ON_ITS_SIDE)
            return np.asarray(small if turn is None else small.transpose(turn))


def _set_scale(image: Image.Image, source: Source, size: int | None) -> int:
    """Have an image decoded at a reduced scale where its format can do that; return by what JPEG 2000 is reduced."""
    if size is None or image.width * image.height <= FULL_SCALE:
        return 1
    image.draft(None, (size, size))  # JPEG
    if image.format != "JPEG2000":
        return 1
    with _open(source) as file:
        limit = resolutions(file.read(HEAD))
    halvings = next((n for n in range(limit, 0, -1) if min(image.size) >= size << n and _halves(image, n)), 0)
    image.reduce = halvings  # type: ignore[assignment, method-assign]  # Pillow's name for it, over a method
    return 1 << halvings


def _halves(image: Image.Image, times: int) -> bool:
    """Say whether Pillow expects the size that the decoder gives: one rounds, the other rounds up."""
    return all(-(-side >> times) == (side + (1 << times >> 1)) >> times for side in image.size)


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to RGB with 8 bits per channel (see the table above).

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


def in_bands(image: Image.Image, size: int | None) -> Image.Image:
    """Convert a large image to RGB band by band, each reduced by a whole factor if the wanted side allows it.

    Args:
        image: an image of any mode.
        size: shorter side of an image that is good enough for what is made of it; None reduces nothing.

    Raises:
        ValueError: see `to_rgb`.
    """
    width, height = image.size
    factor = 1 if size is None else max(1, min(width, height) // (size * GAP))
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    rows = max(1, BAND // width // factor) * factor
    small = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        band = to_rgb(image.crop((0, top, width, min(top + rows, height))))
        small.paste(band.reduce(factor) if factor > 1 else band, (0, top // factor))
    return small


def _from_wide(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int32)  # "I;16" and its byte orders; "I" is what old Pillows make of 16 bits
    if values.size and not 0 <= values.min() <= values.max() <= 65535:
        raise ValueError("pixels of more than 16 bits have no known range")
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    if isinstance(error, UnsafeFileError):
        return f"larger than {MAX_FILE} bytes" if "limit" in str(error) else "not a regular file"
    if isinstance(error, MemoryError):
        return "there is not enough memory to decode it"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=1)
def _formats() -> tuple[str, ...]:
    """Return the formats that this Pillow reads, and have its libtiff print nothing (it writes to standard error)."""
    with suppress(OSError, AttributeError):  # a libtiff that is linked in statically cannot be reached
        classifier = ctypes.CDLL(_imaging.__file__)
        for kind in ("Error", "Warning"):
            classifier[f"TIFFSet{kind}Handler"](None)
    Image.init()
    formats = (*FORMATS, "HEIF") if heif_installed() else FORMATS
    return tuple(name for name in formats if name in Image.OPEN)  # a Pillow may be built without some


def extensions() -> tuple[str, ...]:
    """Return the extensions of image files that can be read here, in lower case."""
    return (*EXTENSIONS, *HEIF_EXTENSIONS) if heif_installed() else EXTENSIONS


@lru_cache(maxsize=1)
def heif_installed() -> bool:
    """Whether photos in HEIC can be read; the first call registers their reader with Pillow."""
    try:
        from pillow_heif import register_heif_opener  # noqa: PLC0415 (optional)
    except ImportError:
        return False
    register_heif_opener()
    return True
