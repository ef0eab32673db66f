"""Draw the exemplars as one image: one row per class, with its name before it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from itaml.errors import ItamlError
from itaml.modelstore.fonts import Font, font_for

SIDE, GAP, LABEL, MAX_PER_ROW = 48, 4, 160, 20  # pixels of an image, between images and for names; images of a row
SIZE = 12  # of the text, in pixels
LONGEST = 20  # characters of a name


def contact_sheet(path: Path, rows: Mapping[int, tuple[str, int, Tensor]]) -> dict[int, str]:
    """Write an image of the first images of each class.

    Args:
        path: the file; its extension decides the format.
        rows: number of each class, with its name, how many images it has, and the first of them (k, c, h, w).

    Returns:
        The names that no font can write, by the number that is in their place.

    Raises:
        ItamlError: the file cannot be written.
    """
    limit = max((min(len(pixels), MAX_PER_ROW) for _, _, pixels in rows.values()), default=1)
    size = (LABEL + limit * (SIDE + GAP) + GAP, max(len(rows), 1) * (SIDE + GAP) + GAP)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    legend: dict[int, str] = {}
    for place, (number, (name, total, pixels)) in enumerate(rows.items()):
        top = GAP + place * (SIDE + GAP)
        text, font = _label(name, number, legend)
        draw.text((GAP, top + SIDE // 3), f"{text} ({total})", fill="black", font=font)
        for column, image in enumerate(pixels[:MAX_PER_ROW]):
            sheet.paste(_thumbnail(image), (LABEL + column * (SIDE + GAP), top))
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise ItamlError(f"cannot write the contact sheet {path}: {error}") from error
    return legend


def _label(name: str, number: int, legend: dict[int, str]) -> tuple[str, Font]:
    text = " ".join(name.split())[:LONGEST]
    font = font_for(text, size=SIZE)
    if font is not None:
        return text, font
    legend[number] = name
    plain = font_for("class 0123456789", size=SIZE)
    assert plain is not None, "Pillow's own font has digits"
    return f"class {number}", plain


def _thumbnail(image: Tensor) -> Image.Image:
    values = image.float()
    if image.is_floating_point():  # floats of any range are shown from their darkest to their lightest
        low, high = values.min(), values.max()
        values = (values - low) / (high - low).clamp_min(1e-12) * 255
    array = values.expand(3, -1, -1).permute(1, 2, 0).numpy().round().astype(np.uint8)
    return Image.fromarray(array).resize((SIDE, SIDE), _resampling(image))


def _resampling(image: Tensor) -> Image.Resampling:
    """Return how a thumbnail is made: small images are enlarged as they are, large ones reduced smoothly."""
    return Image.Resampling.NEAREST if min(image.shape[1:]) <= SIDE else Image.Resampling.BILINEAR
