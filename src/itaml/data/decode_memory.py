"""How much memory decoding an image takes, and one budget for all that is decoded at the same time.

The estimates are bytes for each pixel of the file, measured with Pillow on images of 79 million pixels
(`tests/data/test_decode_memory.py` measures them again).

| format | what takes the memory |
|---|---|
| JPEG | coefficients of all components if the file has several scans; the scaled image |
| WebP | two canvases of the decoder, its copy and Pillow's, in RGBA |
| JPEG 2000 | four bytes a component, twice, at the resolution that is decoded |
| TIFF | the image, and a strip, which may be the whole image |
| other | the image as Pillow holds it: four bytes for all modes but grey, palette and 16 bits |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Condition

from PIL import Image

MAX_MEMORY = 700_000_000  # bytes that decoding one image may take
BUDGET = 1_000_000_000  # bytes that all images under way may take together

_NARROW = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}
_WEBP, _JPEG_2000, _JPEG = 15.5, 20.0, 2.0
_BITS, _SAMPLES = 258, 277  # TIFF tags
_COD = 0xFF52  # JPEG 2000: the segment with the number of resolutions
HEAD = 65536  # bytes in which it is looked for


def estimate(image: Image.Image, *, scale: int = 1) -> int:
    """Return the bytes that loading an image takes; `scale` is the factor by which its sides are reduced.

    Args:
        image: an opened image that is not loaded yet.
        scale: 1 for the whole image.
    """
    pixels = image.width * image.height
    loaded = _NARROW.get(image.mode, 4) * pixels / scale**2
    if image.format == "WEBP":
        return int(_WEBP * pixels)
    if image.format == "JPEG2000":
        return int(_JPEG_2000 * pixels / scale**2)
    if image.format in ("JPEG", "MPO"):
        return int(_JPEG * len(image.getbands()) * pixels + loaded)
    if image.format == "TIFF":
        return int(loaded + pixels * _sample_bytes(image))
    return int(loaded)


def resolutions(head: bytes) -> int:
    """Return how often a JPEG 2000 image can be halved while it is decoded, from the first bytes of its file."""
    place = head.find(b"\xff\x4f\xff\x51") + 2
    while place >= 2 and place + 12 <= len(head):
        marker, length = int.from_bytes(head[place : place + 2]), int.from_bytes(head[place + 2 : place + 4])
        if marker == _COD:
            return min(head[place + 9], 32)
        if marker < 0xFF00 or length < 2:
            return 0
        place += 2 + length
    return 0


@contextmanager
def reserved(size: int) -> Iterator[None]:
    """Wait until `size` bytes of the budget are free, and hold them inside the block."""
    budget = _budget(os.getpid())
    size = min(size, BUDGET)
    with budget.changed:
        budget.changed.wait_for(lambda: budget.used + size <= BUDGET)
        budget.used += size
    try:
        yield
    finally:
        with budget.changed:
            budget.used -= size
            budget.changed.notify_all()


class _Budget:
    def __init__(self) -> None:
        self.changed, self.used = Condition(), 0


@lru_cache(maxsize=1)
def _budget(process: int) -> _Budget:
    """One for all threads; a forked process makes its own, because locks that are held do not survive a fork."""
    return _Budget()


def _sample_bytes(image: Image.Image) -> float:
    tags = getattr(image, "tag_v2", {})
    bits, samples = tags.get(_BITS, (8,)), tags.get(_SAMPLES, 1)
    widest = max(bits) if isinstance(bits, tuple) else bits
    return min(float(widest), 64.0) / 8 * min(float(samples), 16.0)
