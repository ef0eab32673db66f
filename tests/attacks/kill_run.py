"""Kill a run with SIGKILL at any moment, again and again: resumed, it ends in the same bits as one left alone."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from attacks.harness import Tally, isolated, killed
from attacks.kill_learn import sleeping, wait
from attacks.run_support import begin, finished, register
from support import same_bits


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Kill runs one to three times each before they may end; every kill is a trial."""
    tally = Tally()
    register()
    whole = folder / "whole"
    begin(folder / "warm")  # imports everything once, before the forks
    start = time.monotonic()
    assert killed(lambda: begin(whole), after=wait)
    seconds = time.monotonic() - start
    expected = finished(whole)
    while tally.trials < trials:
        path = folder / f"run {tally.trials}"
        kills = min(draw.randint(1, 3), trials - tally.trials)
        for _ in range(kills):
            killed(lambda path=path: begin(path), after=sleeping(draw.uniform(0, 1.1 * seconds)))  # type: ignore[misc]
        why = judged(path, expected)
        for _ in range(kills):
            tally.add(f"{path.name}, killed {kills} times", why, "same bits")
    return tally


def judged(path: Path, expected: Any) -> str | None:
    """Resume a run to its end and return how its result differs from that of a run left alone."""
    ended = isolated(lambda: begin(path), seconds=60)
    if ended.how != "value":
        return f"it is not resumed: {ended.how}: {ended.value}"
    if not same_bits(finished(path), expected):
        return "it ends in other numbers"
    litter = [file.name for file in path.iterdir() if file.name.endswith(".partial")]
    return f"litter: {litter}" if litter else None
