"""Damage files of a model or a run in one place: it is noticed, or it changes nothing."""

from __future__ import annotations

import random
from pathlib import Path


def damage(path: Path, draw: random.Random) -> str:
    """Change a file: a bit, a byte, a run of zeros, its end, or bytes too many; say what was done."""
    data = bytearray(path.read_bytes())
    kind = draw.choice(("bit", "bit", "bit", "byte", "zeros", "cut", "more", "swap"))
    place = draw.randrange(len(data)) if data else 0
    if kind == "bit" and data:
        data[place] ^= 1 << draw.randrange(8)
    elif kind == "byte" and data:
        data[place] = draw.randrange(256)
    elif kind == "zeros":
        data[place : place + 16] = bytes(len(data[place : place + 16]))
    elif kind == "cut":
        del data[place:]
    elif kind == "more":
        data += draw.randbytes(draw.randint(1, 9))
    elif kind == "swap":
        data[place : place + 8], data[:8] = data[:8], data[place : place + 8]
    path.write_bytes(data)
    return f"{kind} at {place} of {path.name}"
