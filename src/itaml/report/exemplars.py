"""Pictures of the exemplar memory, from a run's checkpoint, as PNG strips: one a class."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itaml.errors import CheckpointError
from itaml.report.result import Result

MOST_CLASSES, MOST_PICTURES = 20, 10
SIDE = 40  # pixels of a picture on the page


@dataclass(frozen=True)
class Strip:
    """Exemplars of a class in a row; `kept` is how many there are in all."""

    name: str
    kept: int
    png: bytes

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Exemplars:
    """Strips of the first classes, or a sentence that says why there are none."""

    strips: tuple[Strip, ...]
    classes: int
    words: str


def exemplars(result: Result, *, budget: int = 200_000) -> Exemplars:
    """Read the memory that a run ended with; its pictures take no more than `budget` bytes."""
    path = Path(result.path or "").parent / "checkpoint.safetensors"
    if result.path is None or not path.is_file():
        return Exemplars((), 0, "There is no checkpoint beside the result, so the memory cannot be shown.")
    from itaml.run.experiment import KIND  # noqa: PLC0415 (torch; not needed for tables)
    from itaml.storage import load_state  # noqa: PLC0415

    try:
        learner = load_state(path, kind=KIND)["learner"]
    except (CheckpointError, KeyError) as error:
        return Exemplars((), 0, f"The memory cannot be shown: {error}")
    pictures = _pictures(learner)
    if not pictures:
        return Exemplars((), 0, "This method keeps no exemplars.")
    names = _names(learner, result)
    total = sum(map(len, pictures.values()))
    strips: list[Strip] = []
    for key, pixels in list(pictures.items())[:MOST_CLASSES]:
        strip = Strip(names.get(key, f"class {key}"), len(pixels), _png(pixels[:MOST_PICTURES]))
        budget -= len(strip.uri)
        if budget < 0:
            break
        strips.append(strip)
    shown = "" if len(strips) == len(pictures) else f"; {len(strips)} of the classes are shown"
    words = f"{total:,} pictures of {len(pictures):,} classes at the end of seed {result.seed}{shown}."
    return Exemplars(tuple(strips), len(pictures), words)


def _pictures(learner: Any) -> dict[str, Any]:
    """Return the pixels by class id, whatever kind of learner it was."""
    memory = learner.get("memory") if isinstance(learner, dict) else None
    found = memory.get("pictures") if isinstance(memory, dict) else None
    if not isinstance(found, dict):
        return {}
    return {key: pixels for key, pixels in found.items() if getattr(pixels, "ndim", 0) == 4 and len(pixels)}


def _names(learner: dict[str, Any], result: Result) -> dict[str, str]:
    """Return class names by class id: the tasks' ids and the tasks' names are in the same order."""
    names: dict[str, str] = {}
    for ids, row in zip(learner.get("table") or [], result.tasks, strict=False):
        names |= {str(number): name for number, name in zip(ids, row.classes, strict=False)}
    return names


def _png(pixels: Any) -> bytes:
    """Return pictures (n, c, h, w), uint8 or float, as one row."""
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    values = pixels.cpu().numpy()
    if values.dtype != np.uint8:
        low, high = float(values.min()), float(values.max())
        values = ((values - low) / ((high - low) or 1.0) * 255).astype(np.uint8)
    values = values[:, :3] if values.shape[1] >= 3 else values[:, :1]
    sheet = Image.new("RGB", (len(values) * (SIDE + 2), SIDE), (127, 127, 127))
    for place, picture in enumerate(values):
        image = Image.fromarray(picture[0] if len(picture) == 1 else picture.transpose(1, 2, 0)).convert("RGB")
        way = Image.Resampling.NEAREST if max(image.size) < SIDE else Image.Resampling.BILINEAR
        sheet.paste(image.resize((SIDE, SIDE), way), (place * (SIDE + 2), 0))
    out = io.BytesIO()
    sheet.quantize(64).save(out, format="PNG", optimize=True)
    return out.getvalue()
