"""Mutated images of every format: each is decoded or called bad in one sentence; no crash, no hang, no print."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attacks.harness import Outcome, Tally, in_batches
from itaml.cli.main import prepare_process
from itaml.data.decoding import FORMATS, BadImageError, decode

BATCH = 100  # images that one child decodes
SIZE = 16
MOST_MEGABYTES = 1000.0
NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\x22\xc4")  # the last is 8900


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Decode mutated images."""
    tally = Tally()
    prepare_process()
    sound = list(originals())
    for start in range(0, trials, BATCH):
        paths = []
        for number in range(start, min(start + BATCH, trials)):
            name, data = sound[number % len(sound)]
            path = folder / f"{number}-{name}"
            path.write_bytes(mutated(data, sound, draw))
            paths.append(str(path))
        in_batches(paths, outcome, tally, size=BATCH, most_megabytes=MOST_MEGABYTES)
        for path in map(Path, paths):
            path.unlink()
    return tally


def outcome(path: str) -> Outcome:
    """Decode one image and say how that ended."""
    why = None
    with Captured() as captured:
        try:
            pixels = decode(path, size=SIZE)
            how = "decoded"
            if pixels.shape != (SIZE, SIZE, 3) or pixels.dtype != np.uint8:
                why = f"{pixels.shape} {pixels.dtype}"
        except BadImageError as error:
            how = "refused"
            if "\n" in str(error) or len(str(error)) > 1000 or not error.reason:
                why = f"not one sentence: {str(error)[:200]!r}"
    return how, f"printed {captured.text[:200]!r}" if captured.text else why


class Captured:
    """Collects what is written to the process's standard error, by libraries in C as well."""

    text = ""

    def __enter__(self) -> Captured:
        self._kept, (self._read, write) = os.dup(2), os.pipe()
        os.set_blocking(write, False)
        os.set_blocking(self._read, False)
        os.dup2(write, 2)
        os.close(write)
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)
        with contextlib.suppress(BlockingIOError):
            self.text = os.read(self._read, 65536).decode("utf-8", "replace")
        os.close(self._read)


def originals() -> Iterator[tuple[str, bytes]]:
    """Yield small good images (name, bytes) of every format and kind of pixel."""
    values = np.random.default_rng(0).integers(0, 256, (24, 24, 4), dtype=np.uint8)
    rgba = Image.fromarray(values)
    wide = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds: list[tuple[str, Image.Image, dict[str, Any]]] = [
        ("rgb.jpg", rgba.convert("RGB"), {"exif": exif}),
        ("progressive.jpg", rgba.convert("RGB"), {"progressive": True}),
        ("cmyk.jpg", rgba.convert("CMYK"), {}),
        ("rgba.png", rgba, {}),
        ("wide.png", wide, {}),
        ("palette.png", rgba.convert("RGB").quantize(16), {"transparency": 3}),
        ("bits.png", rgba.convert("1"), {}),
        ("grey.bmp", rgba.convert("L"), {}),
        ("palette.gif", rgba.convert("RGB").quantize(16), {"save_all": True, "append_images": [rgba.convert("P")]}),
        ("lossless.webp", rgba, {"lossless": True}),
        ("lossy.webp", rgba.convert("RGB"), {}),
        ("lzw.tif", rgba.convert("RGB"), {"compression": "tiff_lzw"}),
        ("deflate.tif", wide, {"compression": "tiff_deflate"}),
        ("raw.tif", rgba.convert("CMYK"), {}),
        ("fax.tif", rgba.convert("1"), {"compression": "group4"}),
        ("jpeg.tif", rgba.convert("RGB"), {"compression": "jpeg"}),
        ("rgb.ppm", rgba.convert("RGB"), {}),
        ("rgb.jp2", rgba.convert("RGB"), {}),
    ]
    for name, image, options in kinds:
        buffer = io.BytesIO()
        image.save(buffer, format=Image.registered_extensions()[f".{name.partition('.')[2]}"], **options)
        assert Image.open(buffer).format in (*FORMATS, "MPO")
        yield name, buffer.getvalue()


def mutated(data: bytes, sound: list[tuple[str, bytes]], draw: random.Random) -> bytes:
    """Return an image with bytes changed, put in, taken out, repeated, cut off, or joined with another's."""
    values = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        kind, place = draw.randrange(7), draw.randrange(len(values)) if values else 0
        if kind <= 1:
            values[place : place + 1] = bytes([draw.randrange(256)])
        elif kind == 2:
            values[place : place + 4] = draw.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\x22\xc4")
            )
        elif kind == 3:
            values[place:place] = draw.randbytes(draw.randint(1, 20))
        elif kind == 4:
            del values[place : place + draw.randint(1, 20)]
        elif kind == 5:
            values[place:place] = values[place : place + draw.randint(1, 200)]
        elif draw.random() < 0.3:
            other = draw.choice(sound)[1]
            values[place:] = other[min(place, len(other)) :] if draw.random() < 0.5 else b""
    return bytes(values)
