"""A small model of digits for the kills of the service, and what must be the same however it was made."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from itaml.modelstore.image_classifier import ImageClassifier


def files(label: int, count: int, skip: int = 0, side: int = 8) -> list[bytes]:
    """Return images of a digit as PNG files."""
    raw = load_digits()
    found = []
    for row in np.flatnonzero(raw.target == label)[skip : skip + count]:
        buffer = io.BytesIO()
        image = Image.fromarray((raw.images[row] * 255 / 16).round().astype(np.uint8))
        image.resize((side, side), Image.Resampling.NEAREST).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


def make(path: Path) -> None:
    """Make a model of four digits that learns by gradient steps."""
    classifier = ImageClassifier.create(path, backbone="mlp", image_size=8, memory=200, epochs=30)
    images = [Image.open(io.BytesIO(data)) for label in range(4) for data in files(label, 20)]
    classifier.learn(images, [f"digit {label}" for label in range(4) for _ in range(20)])


def state(path: Path) -> dict[str, Any]:
    """Return what must be the same however often the service was killed."""
    classifier = ImageClassifier.open(path)
    learns = classifier.info()["learns"]
    images = [Image.open(io.BytesIO(data)) for label in range(5) for data in files(label, 10, skip=60)]
    return {
        "version": classifier.version,
        "classes": list(classifier.classes),
        "learns": [learn["images"] for learn in learns],
        "predictions": [(one.label, round(one.confidence, 5)) for one in classifier.predict(images)],
        "problems": classifier.verify(),
    }
