"""Images of every kind, made here, against the pixels they must become."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from itaml.data.decoding import ORIENTATION, BadImageError, decode
from itaml.data.fitting import PLAIN

RAMP = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5  # (4, 4, 3)


def saved(image: Image.Image, path: Path, **options: Any) -> str:
    image.save(path, **options)
    return str(path)


def test_rgb_png_is_read_exactly(tmp_path: Path) -> None:
    path = saved(Image.fromarray(RAMP), tmp_path / "a.png")
    assert np.array_equal(decode(path), RAMP)
    assert np.array_equal(decode(path, size=4), RAMP)


def test_grey_becomes_three_equal_channels(tmp_path: Path) -> None:
    path = saved(Image.fromarray(RAMP[..., 0]), tmp_path / "a.png")
    assert np.array_equal(decode(path), np.repeat(RAMP[..., :1], 3, axis=2))


@pytest.mark.parametrize("extension", ["png", "tif"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path, extension: str) -> None:
    values = np.array([[0, 257], [128 * 257, 65535]], dtype=np.uint16)
    path = saved(Image.fromarray(values), tmp_path / f"a.{extension}")
    assert decode(path)[..., 0].tolist() == [[0, 1], [128, 255]]


def test_cmyk_jpeg_keeps_its_colour(tmp_path: Path) -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    pixels = decode(saved(red, tmp_path / "a.jpg", quality=95))
    assert pixels.shape == (16, 16, 3)
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 3


def test_palette_colours_are_looked_up(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1])
    assert decode(saved(image, tmp_path / "a.png")).tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_transparent_palette_colour_becomes_white(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putdata([0, 1])
    assert decode(saved(image, tmp_path / "a.gif", transparency=0)).tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_alpha_is_composited_on_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(0, 0, 0, 0), (0, 0, 0, 255), (0, 100, 0, 51)])
    assert decode(saved(image, tmp_path / "a.png")).tolist() == [[[255] * 3, [0] * 3, [204, 224, 204]]]


@pytest.mark.parametrize(("mode", "fill"), [("LA", (40, 255)), ("1", 1), ("YCbCr", (128, 128, 128))])
def test_other_modes_become_rgb(tmp_path: Path, mode: str, fill: object) -> None:
    image = Image.new(mode, (3, 2), fill)  # type: ignore[arg-type]
    path = saved(image, tmp_path / ("a.jpg" if mode == "YCbCr" else "a.png"))
    assert decode(path).shape == (2, 3, 3)
    assert decode(path)[0, 0].tolist() == {"LA": [40] * 3, "1": [255] * 3, "YCbCr": [128] * 3}[mode]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    upright = np.zeros((4, 4, 3), dtype=np.uint8)
    upright[0, 0], upright[0, 3] = (255, 0, 0), (0, 255, 0)  # red top left, green top right: no symmetry is left
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    stored = Image.fromarray(upright)
    stored = stored if undo is None else stored.transpose(undo)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    for name in ("a.png", "a.tif"):
        assert np.array_equal(decode(saved(stored, tmp_path / name, exif=exif), size=4), upright)


def test_a_wide_image_gives_its_centre_square(tmp_path: Path) -> None:
    pixels = np.zeros((8, 24, 3), dtype=np.uint8)
    pixels[:, 4:20] = 200  # wider than the square by what the filter looks at
    assert (decode(saved(Image.fromarray(pixels), tmp_path / "a.png"), size=8) == 200).all()
    assert (decode(str(tmp_path / "a.png"), size=4) == 200).all()


def test_a_large_jpeg_is_decoded_at_the_wanted_size(tmp_path: Path) -> None:
    image = Image.new("RGB", (1600, 1200), (10, 150, 90))
    pixels = decode(saved(image, tmp_path / "a.jpg", quality=95), size=32)
    assert pixels.shape == (32, 32, 3)
    assert np.abs(pixels.astype(int) - [10, 150, 90]).max() <= 3


@pytest.mark.parametrize("orientation", [1, 6, 7])
@pytest.mark.parametrize("size", [(640, 480), (480, 640)])
def test_a_jpeg_of_less_than_a_megapixel_has_the_pixels_that_other_programs_see(
    tmp_path: Path, size: tuple[int, int], orientation: int
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path = saved(Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC), tmp_path / "a.jpg", exif=exif)
    with Image.open(path) as image:
        upright = PLAIN.resample(ImageOps.exif_transpose(image), (32, 32))
    assert np.array_equal(decode(path, size=32), np.asarray(upright))


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 9_999, 60_000])
def test_huge_images_are_refused_before_decoding(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(side, side))
    with pytest.raises(BadImageError, match=r"limit|decompression bomb"):
        decode(str(path), size=8)


def test_the_limit_can_be_set(tmp_path: Path) -> None:
    path = saved(Image.fromarray(RAMP), tmp_path / "a.png")
    with pytest.raises(BadImageError, match="4 x 4 pixels are more than the limit of 15"):
        decode(path, max_pixels=15)


def make_bad(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.jpg"
    Image.fromarray(np.zeros((64, 64, 3), dtype=np.uint8)).save(path)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:300])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("no image at all")
    elif kind == "postscript":
        path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    elif kind == "float":
        path = path.with_suffix(".tif")
        Image.fromarray(np.zeros((4, 4), dtype=np.float32)).save(path)
    else:
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling":
        path.symlink_to(folder / "nowhere")
    return path


BAD = {
    "truncated": "truncated",
    "empty": "empty",
    "text": "not an image",
    "postscript": "not an image",
    "float": "floating-point",
    "missing": "no such file",
    "folder": "not a regular file",
    "pipe": "not a regular file",
    "dangling": "no such file",
}


@pytest.mark.parametrize(("kind", "reason"), BAD.items())
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, kind: str, reason: str) -> None:
    path = make_bad(kind, tmp_path)
    with pytest.raises(BadImageError, match=reason) as caught:
        decode(str(path), size=8)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_libtiff_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(np.zeros((64, 64, 3), dtype=np.uint8)).save(path, compression="tiff_lzw")
    whole = path.read_bytes()
    for place in range(8, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(BadImageError):
            decode(str(path), size=8)
    assert capfd.readouterr() == ("", "")
