"""Drawn objects on soft backgrounds: photos for the tests and the screenshot of the page, made on the spot.

Every image is made from (kind, number) alone, so that all callers get the same ones.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

Color = tuple[int, int, int]
Draw = Callable[[ImageDraw.ImageDraw, int, Color], None]


def _shade(color: Color, factor: float) -> Color:
    red, green, blue = (min(255, max(0, round(part * factor))) for part in color)
    return red, green, blue


def _mug(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    draw.ellipse((58 * s, 38 * s, 86 * s, 68 * s), outline=_shade(color, 0.8), width=round(6 * s))
    draw.rounded_rectangle((24 * s, 28 * s, 70 * s, 80 * s), radius=8 * s, fill=color)
    draw.ellipse((24 * s, 22 * s, 70 * s, 36 * s), fill=_shade(color, 1.2))
    draw.ellipse((29 * s, 25 * s, 65 * s, 34 * s), fill=(74, 44, 28))


def _apple(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    draw.ellipse((20 * s, 30 * s, 58 * s, 82 * s), fill=color)
    draw.ellipse((42 * s, 30 * s, 80 * s, 82 * s), fill=color)
    draw.ellipse((28 * s, 38 * s, 42 * s, 54 * s), fill=_shade(color, 1.35))
    draw.line((50 * s, 36 * s, 54 * s, 18 * s), fill=(94, 62, 36), width=round(4 * s))
    draw.ellipse((54 * s, 16 * s, 74 * s, 27 * s), fill=(96, 150, 70))


def _leaf(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    outline = [(18, 82), (20, 52), (38, 28), (64, 18), (84, 16), (82, 38), (72, 62), (48, 80)]
    draw.polygon([(x * s, y * s) for x, y in outline], fill=color)
    draw.line((14 * s, 86 * s, 78 * s, 22 * s), fill=_shade(color, 0.65), width=round(3 * s))
    for x, y, across, up in ((34, 66, 34, 44), (46, 54, 48, 32), (58, 42, 60, 24), (44, 56, 62, 58), (56, 44, 74, 44)):
        draw.line((x * s, y * s, across * s, up * s), fill=_shade(color, 0.75), width=round(2 * s))


def _boat(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    draw.rectangle((0, 72 * s, 100 * s, 100 * s), fill=(70, 120, 160))
    draw.polygon([(14 * s, 64 * s), (88 * s, 64 * s), (74 * s, 82 * s), (28 * s, 82 * s)], fill=color)
    draw.line((50 * s, 64 * s, 50 * s, 14 * s), fill=(90, 66, 46), width=round(3 * s))
    draw.polygon([(53 * s, 16 * s), (53 * s, 58 * s), (82 * s, 58 * s)], fill=(246, 244, 238))
    draw.polygon([(47 * s, 24 * s), (47 * s, 58 * s), (24 * s, 58 * s)], fill=(228, 224, 214))


def _house(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    draw.rectangle((0, 80 * s, 100 * s, 100 * s), fill=(120, 150, 92))
    draw.rectangle((24 * s, 46 * s, 76 * s, 84 * s), fill=(238, 228, 210))
    draw.polygon([(16 * s, 48 * s), (50 * s, 18 * s), (84 * s, 48 * s)], fill=color)
    draw.rectangle((44 * s, 62 * s, 57 * s, 84 * s), fill=_shade(color, 0.6))
    draw.rectangle((29 * s, 54 * s, 39 * s, 64 * s), fill=(120, 170, 200))
    draw.rectangle((62 * s, 54 * s, 72 * s, 64 * s), fill=(120, 170, 200))


def _fish(draw: ImageDraw.ImageDraw, side: int, color: Color) -> None:
    s = side / 100
    draw.polygon([(66 * s, 50 * s), (90 * s, 30 * s), (86 * s, 50 * s), (90 * s, 70 * s)], fill=_shade(color, 0.8))
    draw.ellipse((12 * s, 30 * s, 74 * s, 70 * s), fill=color)
    draw.polygon([(38 * s, 34 * s), (58 * s, 18 * s), (60 * s, 36 * s)], fill=_shade(color, 0.8))
    draw.ellipse((22 * s, 40 * s, 32 * s, 50 * s), fill=(250, 250, 250))
    draw.ellipse((25 * s, 43 * s, 30 * s, 48 * s), fill=(20, 24, 30))


KINDS: dict[str, tuple[Draw, Color, Color]] = {  # name: what draws it, its colour, the colour behind it
    "mug": (_mug, (58, 108, 158), (222, 206, 184)),
    "apple": (_apple, (190, 48, 44), (226, 230, 220)),
    "leaf": (_leaf, (72, 138, 66), (236, 226, 206)),
    "boat": (_boat, (168, 70, 48), (176, 208, 228)),
    "house": (_house, (164, 76, 54), (190, 214, 232)),
    "fish": (_fish, (226, 138, 44), (96, 158, 178)),
}


def photo(kind: str, number: int, side: int = 192) -> Image.Image:
    """Return one photo of a kind; numbers differ in colour, place, turn and light."""
    draw_object, color, behind = KINDS[kind]
    chance = random.Random(zlib.crc32(f"{kind} {number}".encode()))
    image = Image.new("RGB", (2 * side, 2 * side), behind)
    tinted = tuple(min(255, max(0, part + chance.randint(-26, 26))) for part in color)
    draw_object(ImageDraw.Draw(image), 2 * side, (tinted[0], tinted[1], tinted[2]))
    angle, scale = chance.uniform(-9, 9), chance.uniform(0.78, 0.9)
    shift = [round(chance.uniform(-0.045, 0.045) * 2 * side) for _ in range(2)]
    image = image.rotate(angle, Image.Resampling.BICUBIC, translate=(shift[0], shift[1]), fillcolor=behind)
    crop = (1 - scale) * side
    image = image.transform(
        image.size, Image.Transform.EXTENT, (crop, crop, 2 * side - crop, 2 * side - crop), fillcolor=behind
    )
    light = Image.linear_gradient("L").resize(image.size).point([round(190 + 65 * level / 255) for level in range(256)])
    light = light.rotate(chance.choice((0, 90, 180, 270)))
    image = Image.composite(image, Image.new("RGB", image.size, _shade(behind, 0.35)), light)
    return image.filter(ImageFilter.GaussianBlur(1)).resize((side, side), Image.Resampling.LANCZOS)


def jpeg(kind: str, number: int, side: int = 192) -> bytes:
    """Return the bytes of a photo as a JPEG file."""
    buffer = io.BytesIO()
    photo(kind, number, side).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def write_photos(folder: Path, kinds: dict[str, range], side: int = 192) -> dict[str, list[Path]]:
    """Write photos as `folder/kind/kind-01.jpg`; return the files of each kind."""
    files: dict[str, list[Path]] = {}
    for kind, numbers in kinds.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        files[kind] = [folder / kind / f"{kind}-{number:02}.jpg" for number in numbers]
        for path, number in zip(files[kind], numbers, strict=True):
            path.write_bytes(jpeg(kind, number, side))
    return files
