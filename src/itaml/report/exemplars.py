"""Exemplars of a run as strips of small images, one PNG per class."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from itaml.errors import CheckpointError
from itaml.experiment.result import Result
from itaml.experiment.stored_exemplars import read_exemplars

if TYPE_CHECKING:
    import torch

MAX_CLASSES, MOST_IMAGES = 20, 10
SIDE = 40  # pixels of an image on the page


@dataclass(frozen=True)
class Strip:
    """Exemplars of a class in a row; `kept` is how many there are in all."""

    name: str
    kept: int
    png: bytes

    @property
    def uri(self) -> str:
        """The strip as a data URI."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Exemplars:
    """Strips of the first classes, and a sentence that says how many there are or why there are none."""

    strips: tuple[Strip, ...]
    text: str


def exemplars(result: Result, *, budget: int = 200_000) -> Exemplars:
    """Show the memory that a run ended with, in no more than `budget` bytes."""
    if result.path is None:
        return Exemplars((), "The memory cannot be shown: the result was not read from a file.")
    try:
        images = read_exemplars(result.path.parent, [row.classes for row in result.tasks])
    except CheckpointError as error:
        return Exemplars((), f"The memory cannot be shown: {error}.")
    if not images:
        return Exemplars((), "This method keeps no exemplars.")
    strips: list[Strip] = []
    for name, pixels in list(images.items())[:MAX_CLASSES]:
        strip = Strip(name, len(pixels), _png(pixels[:MOST_IMAGES]))
        budget -= len(strip.uri)
        if budget < 0:
            break
        strips.append(strip)
    shown = "" if len(strips) == len(images) else f"; {len(strips)} of the classes are shown"
    total = sum(map(len, images.values()))
    return Exemplars(
        tuple(strips), f"{total:,} images of {len(images):,} classes at the end of seed {result.seed}{shown}."
    )


def _png(pixels: torch.Tensor) -> bytes:
    """Return images (n, c, h, w), uint8 or float, as one row."""
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    values = pixels.cpu().numpy()
    if values.dtype != np.uint8:
        low, high = float(values.min()), float(values.max())
        values = ((values - low) / ((high - low) or 1.0) * 255).astype(np.uint8)
    values = values[:, :3] if values.shape[1] >= 3 else values[:, :1]
    sheet = Image.new("RGB", (len(values) * (SIDE + 2), SIDE), (127, 127, 127))
    for place, pixel in enumerate(values):
        image = Image.fromarray(pixel[0] if len(pixel) == 1 else pixel.transpose(1, 2, 0)).convert("RGB")
        filtering = Image.Resampling.NEAREST if max(image.size) < SIDE else Image.Resampling.BILINEAR
        sheet.paste(image.resize((SIDE, SIDE), filtering), (place * (SIDE + 2), 0))
    out = io.BytesIO()
    sheet.quantize(64).save(out, format="PNG", optimize=True)
    return out.getvalue()
