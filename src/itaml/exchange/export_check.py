"""Compare an exported network with the model it was made of, on images that the model keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from itaml.errors import CheckpointError
from itaml.modelstore.exemplar_images import exemplar_images
from itaml.modelstore.manifest import PixelFormat

if TYPE_CHECKING:
    from itaml.modelstore.image_classifier import ImageClassifier

TOLERANCE = 1e-4  # of probabilities
MOST_CHECKED = 32  # images that are compared
MOST_MEASURED = 500  # images on which accuracy is measured
BATCH = 32
Array = npt.NDArray[Any]
Run = Callable[[Array], tuple[Array, Array, Array, Array]]  # images -> the outputs of `export_network`


@dataclass(frozen=True)
class KeptImages:
    """Images that a model keeps, as an exported network takes them (n, h, w, channels), and their classes."""

    images: Array
    labels: Array
    kind: str  # `exemplar`, `validation`, or `drawn` at random where a model keeps none

    def first(self, count: int) -> KeptImages:
        """Return some of the images, evenly spread over the classes."""
        rows = np.unique(np.linspace(0, len(self.images) - 1, min(count, len(self.images))).astype(int))
        return KeptImages(self.images[rows], self.labels[rows], self.kind)


def kept_images(classifier: ImageClassifier, *, kind: str, limit: int) -> KeptImages:
    """Return images that a model keeps; drawn ones if there are none of this kind."""
    model = classifier._model
    assert model.manifest.shape is not None
    assert model.manifest.pixels is not None
    per_class = max(1, limit // max(1, len(classifier.classes)))
    found = exemplar_images(model, classifier._folder, limit=per_class, kind=kind)
    if not any(map(len, found.values())):
        return _drawn(model.manifest.shape, model.manifest.pixels)
    pixels = torch.cat([images for _, images in sorted(found.items())])
    labels = [label for label, images in sorted(found.items()) for _ in range(len(images))]
    return KeptImages(_as_input(pixels, model.manifest.pixels), np.array(labels), kind)


def compare(classifier: ImageClassifier, run: Run, images: Array) -> float:
    """Return the largest difference of a probability between an exported network and its model.

    Raises:
        CheckpointError: probabilities differ by more than 1e-4, or a class differs that is not a tie.
    """
    expected = classifier.predict(images, top=len(classifier.classes), unknown="never")
    names = classifier.classes
    wanted = np.array([[dict(row.top)[name] for name in names] for row in expected])
    labels, found = run(images)[:2]
    difference = float(np.abs(found - wanted).max())
    ranked = [row.top[0][0] for row in expected]
    for row, (label, name) in enumerate(zip(labels.tolist(), ranked, strict=True)):
        tie = abs(wanted[row, label] - wanted[row, names.index(name)]) <= 2 * TOLERANCE
        if names[label] != name and not tie:
            raise CheckpointError(f"the exported network predicts {names[label]!r} where the model predicts {name!r}")
    if not difference <= TOLERANCE:
        raise CheckpointError(f"probabilities of the exported network differ from the model's by {difference:.2g}")
    return difference


def measure_accuracy(run: Run, kept: KeptImages) -> float:
    """Return the share of images whose class an exported network predicts."""
    starts = range(0, len(kept.images), BATCH)
    found = np.concatenate([run(kept.images[start : start + BATCH])[0] for start in starts])
    return float((found == kept.labels).mean())


def _as_input(pixels: torch.Tensor, form: PixelFormat) -> Array:
    """Return images (n, c, h, w) as an exported network takes them."""
    if form.white is None:
        return pixels.permute(0, 2, 3, 1).contiguous().numpy()
    if form.dtype == "float32":
        pixels = (pixels * (255 / form.white)).round().clamp(0, 255).to(torch.uint8)
    return pixels.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()


def _drawn(shape: tuple[int, int, int], form: PixelFormat) -> KeptImages:
    channels, height, width = shape
    draw = np.random.default_rng(0)
    images: Array = draw.random((8, height, width, channels), dtype=np.float32)
    if form.white is not None:
        images = draw.integers(0, 256, (8, height, width, 3), dtype=np.uint8)
    return KeptImages(images, np.full(8, -1), "drawn")
