"""Malicious pickles: nothing is called, no memory is forged, nothing hangs; each is refused in one sentence."""

from __future__ import annotations

import os
import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from attacks.harness import Ended, Tally, isolated, spread
from attacks.pickle_makers import array, dictionary, malicious
from itaml.data.pickles import read_pickle

PLAIN = (int, float, str, bytes, type(None))


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Read each malicious pickle, and once all are through, copies with random bytes changed."""
    tally = Tally()
    os.chdir(folder)
    known = spread(list(malicious()), trials)
    mutants = ((f"{name}, changed", mutated(data, draw)) for name, data in cycle(known) if len(data) < 10_000)
    for name, data in [*known, *islice(mutants, max(0, trials - len(known)))][:trials]:
        ended = isolated(lambda data=data: read(data))  # type: ignore[misc]
        tally.add(name, why(ended, name), ended.how)
    return tally


def read(data: bytes) -> str:
    """Read a pickle, use what comes out in full, and describe it."""
    content = read_pickle(data, source="a file")
    for key, value in content.items():
        assert isinstance(key, str)
        assert plain(value), f"{type(value)} came out"
    return "read"


def plain(value: Any) -> bool:
    """Say whether a value is a number, text, a flat list of them or an array of numbers that owns its memory."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf" and isinstance(float(value.sum()), float)
    return all(isinstance(item, PLAIN) for item in (value if isinstance(value, list) else [value]))


def why(ended: Ended, name: str) -> str | None:
    """Return what is wrong with how a trial ended."""
    if Path("hacked").exists():
        return "it ran a program"
    if ended.how == "value" and not name.endswith("changed") and not name.startswith("harmless"):
        return "it was read"
    return ended.wrong()


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a pickle with a few bytes changed."""
    values = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        values[draw.randrange(len(values))] = draw.randrange(256)
    return bytes(values)


def good() -> bytes:
    """Return a pickle that must be read."""
    return dictionary(array())
