"""The steps of a model's long life, each for a process of its own, on images that are drawn from the class's number."""

from __future__ import annotations

import json
import random
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.model_folder import ModelFolder, size_on_disk
from itaml.modelstore.repair import verify

TRAIN, TEST = 20, 4  # images of a class
NOISE = 90.0  # standard deviation, of 256 levels
PAUSE = 0.5  # seconds between two predictions


@dataclass(frozen=True)
class Measured:
    """What one learn took, and how good the model was afterwards."""

    cpu_seconds: float
    wall_seconds: float
    peak_megabytes: float  # of the process
    disk_bytes: int  # of the model's folder, all versions
    record_bytes: int  # of the record of the version in use
    known: int  # classes afterwards
    accuracy: float | None  # on images that were not learned, of all classes


def images(number: int) -> npt.NDArray[np.uint8]:
    """Return images (24, 8, 8, 3) of a class: 16 coloured squares under noise."""
    draw = np.random.default_rng(number)
    pattern = draw.integers(0, 256, (4, 4, 3))
    noisy = np.clip(pattern + draw.normal(0, NOISE, (TRAIN + TEST, 4, 4, 3)), 0, 255).astype(np.uint8)
    return noisy.repeat(2, axis=1).repeat(2, axis=2)


def name_of(number: int) -> str:
    """Return the name of a class."""
    return f"class {number}"


def learn(path: Path, number: int) -> dict[str, Any]:
    """Learn a class in this process, and return what that took."""
    cpu, wall = time.process_time(), time.perf_counter()
    classifier = ImageClassifier.open(path, precision="fp32")
    classifier.learn(images(number)[:TRAIN], [name_of(number)] * TRAIN)
    record = path / "versions" / f"{classifier.version:06d}" / "model.json"
    return {
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10, 1),
        "disk_bytes": size_on_disk(ModelFolder(path)),
        "record_bytes": record.stat().st_size,
    }


def state(path: Path) -> tuple[list[int], list[str]]:
    """Return the numbers of the classes that a model knows, and what `verify` finds wrong."""
    classes = ImageClassifier.open(path, precision="fp32").classes
    return [int(name.removeprefix("class ")) for name in classes], verify(path)[1]


def roll_back(path: Path) -> tuple[list[int], list[str]]:
    """Undo the last change, and return the state."""
    ImageClassifier.open(path, precision="fp32").rollback()
    return state(path)


def forget(path: Path, number: int) -> tuple[list[int], list[str]]:
    """Forget a class, and return the state."""
    ImageClassifier.open(path, precision="fp32").forget(name_of(number))
    return state(path)


def measure_accuracy(path: Path, known: list[int]) -> float:
    """Return the accuracy on images that were not learned."""
    found = ImageClassifier.open(path, precision="fp32").predict(
        np.concatenate([images(number)[TRAIN:] for number in known]), unknown="never"
    )
    expected = [name_of(number) for number in known for _ in range(TEST)]
    return sum(one.label == label for one, label in zip(found, expected, strict=True)) / len(expected)


def predict_until(path: Path, end: Path, report: Path) -> None:
    """Predict with whatever version is in use, again and again, until a file appears; write what happened."""
    draw, predictions, failures = random.Random(0), 0, list[str]()
    while not end.exists():
        time.sleep(PAUSE)
        try:
            classifier = ImageClassifier.open(path, precision="fp32")
            if classifier.classes:
                predict_known(classifier, draw)
                predictions += 1
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    report.write_text(json.dumps({"predictions": predictions, "failures": failures}))


def predict_known(classifier: ImageClassifier, draw: random.Random) -> None:
    """Predict images of a class that a model knows; it must be one of its classes."""
    chosen = draw.choice(classifier.classes)
    found = classifier.predict(images(int(chosen.removeprefix("class ")))[TRAIN:])
    assert {one.label for one in found} <= {*classifier.classes, "unknown"}
