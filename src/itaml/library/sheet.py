"""Draw the exemplars as one picture: a row a class, its name before it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from itaml.errors import ItamlError

SIDE, GAP, LABEL, MOST = 48, 4, 160, 20  # pixels a picture, between pictures and for names; pictures a row


def contact_sheet(path: Path, rows: Mapping[str, Tensor]) -> None:
    """Write a picture of the first pictures (k, c, h, w) of each class; the ending of `path` decides its format.

    Raises:
        ItamlError: the file cannot be written.
    """
    most = max((min(len(pixels), MOST) for pixels in rows.values()), default=1)
    size = (LABEL + most * (SIDE + GAP) + GAP, max(len(rows), 1) * (SIDE + GAP) + GAP)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for number, (name, pixels) in enumerate(rows.items()):
        top = GAP + number * (SIDE + GAP)
        words = f"{name[:20]} ({len(pixels)})"
        draw.text((GAP, top + SIDE // 3), words.encode("latin-1", "replace").decode("latin-1"), fill="black")
        for place, picture in enumerate(pixels[:MOST]):
            sheet.paste(_thumbnail(picture), (LABEL + place * (SIDE + GAP), top))
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise ItamlError(f"cannot write the contact sheet {path}: {error}") from error


def _thumbnail(picture: Tensor) -> Image.Image:
    values = picture.float()
    if picture.is_floating_point():  # floats of any range are shown from their darkest to their lightest
        low, high = values.min(), values.max()
        values = (values - low) / (high - low).clamp_min(1e-12) * 255
    array = values.expand(3, -1, -1).permute(1, 2, 0).numpy().round().astype(np.uint8)
    return Image.fromarray(array).resize((SIDE, SIDE), Image.Resampling.NEAREST)
