"""Many processes on one model at once: learns, rollbacks, verifications and predictions, and not one false word."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks.harness import Tally, isolated, quiet
from attacks.model_support import copied, images, learned
from itaml.errors import ItamlError, UsageError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import LockedError
from itaml.modelstore.repair import rollback, verify

PROCESSES = 10
CLASSES = {"0", "1", "2", "3", "4"}
Work = Callable[[Path, random.Random], str]


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Let ten processes work on one model for `trials` seconds; every operation is a trial."""
    tally = Tally()
    original = learned(folder / "original")
    path = copied(original, folder / "model")
    for digits in ((3,), (4,), (2,), (0, 1, 2)):
        images(digits)
    end = time.monotonic() + trials
    children = {}
    for number in range(PROCESSES):
        report = folder / f"report {number}.json"
        children[start(WORKS[number % len(WORKS)], path, draw.getrandbits(64), end, report)] = report
    for child in children:
        os.waitpid(child, 0)
    for report in children.values():
        counts, failures = (
            json.loads(report.read_text()) if report.exists() else ({}, ["a process ended without a word"])
        )
        for how, count in counts.items():
            tally.trials += count
            tally.outcomes[how] += count
        for failure in failures:
            tally.failed(failure)
    ended = isolated(lambda: (verify(path)[1], sorted(os.listdir(path)), ImageClassifier.open(path).version))
    problems, names, _ = ended.value if ended.how == "value" else ([str(ended.value)], [], 0)
    if problems or names != ["current.json", "lock", "tables", "versions"]:
        tally.failed(f"afterwards: {problems} {names}")
    return tally


def start(work: Work, path: Path, seed: int, end: float, report: Path) -> int:
    """Start a process that works until the end, and return its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        quiet()
        draw, counts, failures = random.Random(seed), Counter[str](), list[str]()
        while time.monotonic() < end:
            try:
                counts[work(path, draw)] += 1
            except LockedError:
                counts["locked"] += 1
                time.sleep(draw.uniform(0, 0.02))
            except Exception as error:
                failures.append(f"{work.__name__}: {type(error).__name__}: {error}")
        report.write_text(json.dumps([counts, failures]))
        code = 0
    finally:
        os._exit(code)


def learning(path: Path, draw: random.Random) -> str:
    """Learn a new class, or refresh one."""
    ImageClassifier.open(path, precision="fp32").learn(*images(draw.choice(((3,), (4,), (2,)))), epochs=1)
    time.sleep(draw.uniform(0, 0.05))
    return "learned"


def rolling_back(path: Path, draw: random.Random) -> str:
    """Return to the version before, if there is one."""
    time.sleep(draw.uniform(0, 0.1))
    try:
        rollback(path)
    except UsageError as error:
        assert "no earlier version" in str(error), error  # noqa: PT017
        return "nothing to roll back"
    return "rolled back"


def verifying(path: Path, draw: random.Random) -> str:
    """Verify: nothing is ever wrong."""
    problems = verify(path)[1]
    if problems:
        raise ItamlError(f"a false alarm: {problems}")
    return "verified"


def predicting(path: Path, draw: random.Random) -> str:
    """Predict: only classes that the opened version knows."""
    classifier: Any = ImageClassifier.open(path, precision="fp32")
    found = {answer.label for answer in classifier.predict(images((0, 1, 2))[0])}
    assert found <= set(classifier.classes) <= CLASSES, found
    assert classifier.info()["version"] == classifier.version
    return "predicted"


WORKS: tuple[Work, ...] = (learning, verifying, predicting, rolling_back, learning, verifying, predicting)
