"""Damaged files of a model: opening it gives an error or the same predictions; verify and rollback say the truth."""

from __future__ import annotations

import random
from pathlib import Path

from attacks.flips import damage
from attacks.harness import Outcome, Tally, in_batches
from attacks.model_support import answers, copied, images, learned
from itaml.errors import ItamlError
from itaml.modelstore.repair import rollback, verify

OLDER = "versions/000001"


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Damage one file of a copy of a model, and open, verify and mend the copy."""
    tally = Tally()
    original = learned(folder / "original")
    images((0, 1, 2, 3), limit=3)
    expected = answers(original)
    seeds = [draw.getrandbits(64) for _ in range(trials)]
    in_batches(seeds, lambda seed: trial(original, folder / "copy", expected, seed), tally)
    return tally


def trial(original: Path, path: Path, expected: list[str], seed: int) -> Outcome:
    """Damage a copy and judge what is said of it."""
    draw = random.Random(seed)
    copied(original, path)
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "lock")
    file = draw.choice(files)
    before = file.read_bytes()
    done = damage(file, draw)
    same = file.read_bytes() == before
    found = _sentences(lambda: verify(path)[1])
    if not same and not found:
        return "failed", f"{done}: verify found nothing"
    try:
        now = answers(path)
    except ItamlError as error:
        if "\n" in str(error):
            return "failed", f"{done}: not one sentence: {error}"
        return "noticed", _mended(path, done)
    if now != expected:
        return "failed", f"{done}: other predictions"
    return ("harmless" if same else "noticed by verify alone"), None


def _sentences(check: object) -> list[str]:
    try:
        return list(check())  # type: ignore[operator]
    except ItamlError as error:
        return [str(error)]


def _mended(path: Path, done: str) -> str | None:
    """Roll back, and return what is wrong afterwards."""
    rollback(path)
    left = [problem for problem in verify(path)[1] if OLDER not in problem]
    return f"{done}: after rollback: {left}" if left else None
