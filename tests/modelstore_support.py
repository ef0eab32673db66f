"""What the tests of the library share: folders of images made from the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from itaml.data.images import Shape
from itaml.models import MODELS
from itaml.models.backbones.mlp import mlp
from itaml.modelstore.image_classifier import ImageClassifier

Bytes = npt.NDArray[np.uint8]

SPLITS = {"first": (0, 1, 2, 3), "second": (4, 5, 6), "third": (7,)}  # uneven, the last a single class


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def write_digits(root: Path, splits: dict[str, tuple[int, ...]], *, test: int = 4) -> None:
    """Write `root/split/digit/*.png` for training, and every `test`-th image into `root/test/digit`."""
    raw = load_digits()
    for number, (image, label) in enumerate(zip(raw.images, raw.target, strict=True)):
        split = next((name for name, members in splits.items() if int(label) in members), None)
        if split is not None:
            folder = root / ("test" if number % test == 0 else split) / f"digit {label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 255 / 16).round().astype(np.uint8)).save(folder / f"{number}.png")


def accuracy(classifier: ImageClassifier, digits: Path, splits: tuple[str, ...]) -> float:
    """Return the share of test images of some splits that are classified correctly."""
    names = [f"digit {label}" for split in splits for label in SPLITS[split]]
    files = [str(file) for name in names for file in sorted((digits / "test" / name).iterdir())]
    predictions = classifier.predict(files)
    return sum(prediction.label == Path(prediction.file or "").parent.name for prediction in predictions) / len(
        predictions
    )


def tiny_mlp(shape: Shape) -> nn.Module:
    """Return the network of the model folders in `tests/modelstore/fixtures`."""
    return mlp(shape, hidden=(8,))


TINY = "tiny-mlp"
if TINY not in MODELS.names():
    MODELS.add(TINY, "modelstore_support:tiny_mlp", "for tests: one hidden layer of 8")


def digits_of(labels: tuple[int, ...], *, limit: int = 12, skip: int = 0) -> tuple[Bytes, list[int]]:
    """Return images (n, 8, 8) of uint8 and their labels, the first `limit` of each class after `skip`."""
    raw = load_digits()
    rows = [row for label in labels for row in np.flatnonzero(raw.target == label)[skip : skip + limit].tolist()]
    return (raw.images[rows] * 255 / 16).round().astype(np.uint8), [int(raw.target[row]) for row in rows]


def tiny_model(path: Path, *, epochs: int = 2, **options: Any) -> ImageClassifier:
    """Return a new model whose learns take milliseconds."""
    return ImageClassifier.create(path, backbone=TINY, epochs=epochs, **options)
