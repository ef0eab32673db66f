"""Kill -9 a learn at random moments; the model must always open, verify and answer as the old or the new version.

    python benchmarks/kill_learn.py --times 50

Prints JSON. A child process learns; it is killed after a random time between nothing and a little more than a whole
learn takes, half of the times aimed at the moment in which the new version is written.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.repair import verify


def learn(path: Path, images: Any, labels: Any) -> float:
    """Learn in a child process; return its start."""
    ImageClassifier.open(path).learn(images, labels, epochs=2)
    return time.monotonic()


def child(path: Path, images: Any, labels: Any) -> int:
    number = os.fork()
    if number == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            learn(path, images, labels)
            code = 0
        finally:
            os._exit(code)
    return number


def predictions(path: Path, images: Any) -> list[str | None]:
    return [prediction.label for prediction in ImageClassifier.open(path).predict(images)]


def wait_for_draft(path: Path, seconds: float) -> None:
    """Wait until the child begins to write a version."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not list((path / "versions").glob(".0*")):
        time.sleep(0.0002)


def main(times: int, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    raw = load_digits()
    images = (raw.images * 15).astype(np.uint8)
    tally = {"old": 0, "new": 0}
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        ImageClassifier.create(path, memory=200, epochs=2).learn(images[raw.target < 3], raw.target[raw.target < 3])
        more = (raw.target >= 3) & (raw.target < 6)
        start = time.monotonic()
        os.waitpid(child(path, images[more], raw.target[more]), 0)
        whole = time.monotonic() - start
        for attempt in range(times):
            before, expected = ModelFolder(path).current().number, predictions(path, images[:50])
            number = child(path, images[more], raw.target[more])
            if attempt % 2:
                wait_for_draft(path, 3 * whole)
                time.sleep(draw.uniform(0, 0.01))
            else:
                time.sleep(draw.uniform(0, 1.2 * whole))
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            try:
                after = ModelFolder(path).current().number
                problems = verify(path)[1]
                found = predictions(path, images[:50])
                if problems or after not in (before, before + 1) or (after == before and found != expected):
                    failures.append(f"attempt {attempt}: {before} to {after}, {problems}")
                tally["old" if after == before else "new"] += 1
            except Exception as error:
                failures.append(f"attempt {attempt}: {type(error).__name__}: {error}")
    return {"kills": times, "good": times - len(failures), **tally, "failures": failures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    result = main(given.times, given.seed)
    print(json.dumps(result, indent=1))
    sys.exit(bool(result["failures"]))
