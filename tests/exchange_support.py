"""What the tests of exchange share: the command line in this process, images, and predictions as numbers."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
from PIL import Image

from itaml.cli.main import main
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import Bytes, Ran


def run_itaml(*words: object) -> Ran:
    """Run the program in this process; return its exit code and output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def blotches(labels: tuple[int, ...], *, count: int, size: tuple[int, int], seed: int = 0) -> tuple[Bytes, list[str]]:
    """Return colour images (n, height, width, 3) of classes that differ in the places of their colours, and names."""
    draw = np.random.default_rng(seed)
    images, names = [], []
    for label in labels:
        base = np.random.default_rng(1000 + label).integers(0, 256, (4, 4, 3))
        for _ in range(count):
            small = np.clip(base + draw.normal(0, 30, base.shape), 0, 255).astype(np.uint8)
            images.append(np.asarray(Image.fromarray(small).resize(size[::-1], Image.Resampling.BICUBIC)))
            names.append(f"class {label}")
    return np.stack(images), names


def probabilities(classifier: ImageClassifier | Any, images: Any) -> np.ndarray[Any, Any]:
    """Return the probability of each class for each image (n, classes)."""
    found = classifier.predict(images, top=len(classifier.classes))
    return np.array([[dict(row.top)[name] for name in classifier.classes] for row in found])
