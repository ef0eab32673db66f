"""Damaged files of a run: its result is refused or the same; a resumed run is refused or ends in the same bits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from attacks.flips import damage
from attacks.harness import Outcome, Tally, in_batches
from attacks.model_support import copied
from attacks.run_support import begin, finished, register
from itaml.cli.watch import view
from itaml.errors import ItamlError
from itaml.experiment.event_reader import follow_run
from itaml.experiment.run_folder import CHECKPOINT, CONFIG, EVENTS, RESULT
from support import same_bits


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Damage one file of a copy of a run, finished or not, and read, watch and resume it."""
    tally = Tally()
    register()
    original = folder / "original"
    begin(original)
    expected = finished(original)
    seeds = [draw.getrandbits(64) for _ in range(trials)]
    in_batches(seeds, lambda seed: trial(original, folder / "copy", expected, seed), tally, seconds=300)
    return tally


def trial(original: Path, path: Path, expected: Any, seed: int) -> Outcome:
    """Damage a copy and judge what is made of it."""
    draw = random.Random(seed)
    copied(original, path)
    if draw.random() < 0.3:
        (path / RESULT).unlink()  # as if the run had been killed before its end
    names = [name for name in (CONFIG, RESULT, CHECKPOINT, EVENTS) if (path / name).exists()]
    done = damage(path / draw.choice(names), draw)
    tail, state = follow_run(path)
    for event in tail.read():
        state.take(event)
    view(state)
    try:
        begin(path)
        found = finished(path)
    except ItamlError as error:
        return ("failed", f"{done}: not one sentence") if "\n" in str(error) else ("refused", None)
    return ("same", None) if same_bits(found, expected) else ("failed", f"{done}: other numbers")
