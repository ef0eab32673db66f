"""Malicious pickles: nothing is called, no memory is forged, nothing hangs; each is refused in one sentence."""

from __future__ import annotations

import os
import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from attacks.harness import Outcome, Tally, in_batches, spread
from attacks.pickle_makers import array, dictionary, malicious
from itaml.data.pickles import read_pickle
from itaml.errors import DataError

PLAIN = (int, float, str, bytes, type(None))


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Read each malicious pickle, and once all are through, copies with random bytes changed."""
    tally = Tally()
    os.chdir(folder)
    known = spread(list(malicious()), trials)
    mutants = ((f"{name}, changed", mutated(data, draw)) for name, data in cycle(known) if len(data) < 10_000)
    in_batches(
        [*known, *islice(mutants, max(0, trials - len(known)))][:trials], outcome, tally, name=lambda item: item[0]
    )
    return tally


def outcome(item: tuple[str, bytes]) -> Outcome:
    """Read a pickle and say how that ended."""
    name, data = item
    try:
        read(data)
    except DataError as error:
        sentence = "\n" not in str(error) and len(str(error)) < 600
        why = None if sentence else f"not one sentence: {str(error)[:200]!r}"
        return "refused", "it ran a program" if Path("hacked").exists() else why
    return "read", None if name.endswith("changed") or name.startswith("harmless") else "it was read"


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


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a pickle with a few bytes changed."""
    values = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        values[draw.randrange(len(values))] = draw.randrange(256)
    return bytes(values)


def good() -> bytes:
    """Return a pickle that must be read."""
    return dictionary(array())
