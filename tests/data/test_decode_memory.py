"""Decoding takes no more memory than is estimated, measured in child processes; all threads share one budget."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attacks.harness import isolated
from itaml.data import decode_memory
from itaml.data.decode_memory import estimate, reserved, resolutions
from itaml.data.decoding import MAX_PIXELS, BadImageError, decode

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "16 bits": ("i16.png", {}),
    "16 bits in TIFF": ("i16.tif", {"compression": "tiff_deflate"}),
    "grey and alpha": ("la.png", {}),
    "RGBA": ("rgba.png", {}),
    "palette": ("p.png", {}),
    "transparent palette": ("pt.png", {"transparency": 3}),
    "GIF": ("p.gif", {}),
    "RGB": ("rgb.png", {}),
    "JPEG": ("rgb.jpg", {}),
    "progressive JPEG": ("progressive.jpg", {"progressive": True, "subsampling": 0}),
    "JPEG 2000": ("rgb.jp2", {}),
    "TIFF": ("rgb.tif", {"compression": "tiff_lzw"}),
    "WebP": ("rgb.webp", {"method": 0, "quality": 20}),
}
SPARE = 25.0  # MB for everything that does not grow with the image


def make(kind: str, folder: Path, side: int) -> str:
    name, options = KINDS[kind]
    stripes = np.tile(np.arange(side) % 251, (side, 1)).astype(np.uint8)
    grey = Image.fromarray(stripes)
    modes = {"la": "LA", "rgba": "RGBA", "p": "P", "pt": "P"}
    stem = name.partition(".")[0]
    image = Image.fromarray(stripes.astype(np.uint16) * 257) if stem == "i16" else grey.convert(modes.get(stem, "RGB"))
    if image.mode in ("LA", "RGBA"):
        image.putalpha(128)
    image.save(folder / name, **options)
    return str(folder / name)


def small_image() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), dtype=np.uint16)).save(out, format="PNG")
    return out.getvalue()


def peak_and_estimate(path: str, size: int) -> tuple[float, float]:
    """Return the megabytes that decoding took and that were estimated without a reduced scale."""
    with Image.open(path) as image:
        expected = estimate(image) / 1e6
    decode(small_image(), size=size)  # here, so that what Pillow imports once is not counted
    ended = isolated(lambda: decode(path, size=size).shape, seconds=120)
    assert ended.how == "value", ended.value
    assert ended.value == [size, size, 3]
    return ended.megabytes, expected


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_takes_no_more_memory_than_estimated(tmp_path: Path, kind: str) -> None:
    took, expected = peak_and_estimate(make(kind, tmp_path, 2100), 32)  # 4.4 million pixels: converted in bands
    assert took <= expected + SPARE


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "WebP"])
def test_the_largest_images_take_half_a_gigabyte_at_most(tmp_path: Path, kind: str) -> None:
    took, _ = peak_and_estimate(make(kind, tmp_path, 8900), 64)
    assert took <= 500


def test_an_image_that_takes_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make("WebP", tmp_path, 400)
    monkeypatch.setattr("itaml.data.decoding.MAX_MEMORY", 2_000_000)
    with pytest.raises(BadImageError, match="400 x 400 pixels of WEBP take 2 MB to decode, more than the limit of 2"):
        decode(path, size=8)
    assert decode_memory.MAX_MEMORY > 5 * MAX_PIXELS  # all but WebP and rare TIFF files come up to the limit of pixels


@pytest.mark.parametrize("kind", ["16 bits", "RGBA", "transparent palette", "grey and alpha"])
def test_bands_give_the_same_pixels_as_a_whole_image(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(kind, tmp_path, 600)
    whole, small = decode(path), decode(path, size=16).astype(int)
    monkeypatch.setattr("itaml.data.decoding.LARGE", 1000)
    monkeypatch.setattr("itaml.data.decoding.BAND", 7 * 600)
    assert np.array_equal(decode(path), whole)
    assert np.abs(decode(path, size=16).astype(int) - small).max() <= 2  # bands are reduced by a whole factor first


def test_jpeg_2000_is_decoded_at_a_reduced_scale_of_the_right_size(tmp_path: Path) -> None:
    for width, height in ((900, 700), (512, 512), (333, 1000)):
        path = tmp_path / f"{width}.jp2"
        Image.new("RGB", (width, height), (10, 150, 90)).save(path)
        pixels = decode(str(path), size=16)
        assert np.abs(pixels.astype(int) - [10, 150, 90]).max() <= 2
    assert resolutions(path.read_bytes()) == 5
    assert resolutions(b"\xff\x4f\xff\x51\x00\x01" + b"x" * 50) == 0
    assert resolutions(b"") == 0


def test_all_threads_share_one_budget() -> None:
    lock, under_way, limit = Lock(), [0], [0]
    started = Barrier(6)

    def work(_: int) -> None:
        started.wait()
        with reserved(decode_memory.BUDGET // 2):
            with lock:
                under_way[0] += 1
                limit[0] = max(limit[0], under_way[0])
            time.sleep(0.01)
            with lock:
                under_way[0] -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert limit[0] == 2
    with reserved(100 * decode_memory.BUDGET):  # more than all of it: the image has the budget to itself
        pass
