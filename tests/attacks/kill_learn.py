"""Kill a learn with SIGKILL at any moment: the model is the old version or the new one, whole, and goes on learning."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from attacks.harness import Tally, isolated, killed
from attacks.model_support import THIRD, answers, copied, images, learn_third, learned, state_of

AGAIN = 10  # after every tenth kill the model learns once more


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Kill learns, half of them at moments spread over a whole learn, half while the new version is written."""
    tally = Tally()
    original = learned(folder / "original")
    images(THIRD), images((0, 1, 2, 3), limit=3)  # read once, before the forks
    old = isolated(lambda: answers(original)).value
    path = copied(original, folder / "model")
    start = time.monotonic()
    assert killed(lambda: learn_third(path), after=wait)
    whole = time.monotonic() - start
    writing = time_of_writing(original, path)
    new = isolated(lambda: answers(path)).value
    assert (old[0], new[0]) == ("2", "3")
    for number in range(trials):
        copied(original, path)
        moment = draw.uniform(0, 1.1 * whole)
        after = sleeping(moment) if number % 2 else at_draft(path, 3 * whole, draw.uniform(0, 1.2 * writing))
        done = killed(lambda: learn_third(path), after=after)
        ended = isolated(lambda: state_of(path))
        found, problems = ended.value if ended.how == "value" else ([], [])
        why = ended.wrong() or (f"verify found {problems}" if problems else None)
        if why is None and found not in (old, new):
            why = f"neither the old model nor the new: {found[:3]}"
        if why is None and done and found != new:
            why = "the learn was done, but the new version is not in use"
        if why is None and number % AGAIN == 0:
            again = isolated(lambda: learn_third(path))
            why = None if again.how == "value" else f"it does not learn again: {again.how} {again.value}"
        tally.add(f"kill {number}", why, "new version" if found == new else "old version")
    return tally


def time_of_writing(original: Path, path: Path) -> float:
    """Return the seconds from the first file of a new version to the end of a learn."""
    copied(original, path)
    start = 0.0

    def after(child: int) -> None:
        nonlocal start
        at_draft(path, 60.0, 0.0)(child)
        start = time.monotonic()
        wait(child)

    killed(lambda: learn_third(path), after=after)
    return time.monotonic() - start


def wait(child: int) -> None:
    """Wait for the end of a child, without taking its exit code."""
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def sleeping(seconds: float) -> Callable[[int], None]:
    """Return a function that waits for a time."""
    return lambda child: time.sleep(seconds)


def at_draft(path: Path, most: float, then: float) -> Callable[[int], None]:
    """Return a function that waits until a version begins to be written, and a little more."""

    def after(child: int) -> None:
        end = time.monotonic() + most
        while time.monotonic() < end and not any(name.startswith(".0") for name in os.listdir(path / "versions")):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                return
            time.sleep(0.0003)
        time.sleep(then)

    return after
