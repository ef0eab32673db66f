"""What a model makes of the images that it keeps: mistakes, classes that look alike, labels that look wrong.

Validation images were never trained on. Exemplars were, so their probabilities say little, unless the learner can tell
what it would predict if it had not learned them (leave-one-out, exact for learners of sums).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.learners.api import Prediction
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.stored_pixels import StoredPixels

BATCH = 256


@dataclass(frozen=True, eq=False)
class ReviewedImage:
    """An image that is kept, and what the model says of it."""

    pixels: Tensor  # (c, h, w)
    label: ClassId
    predicted: ClassId
    confidence: float  # of the prediction
    own: float  # probability of its label


@dataclass(frozen=True, eq=False)
class Review:
    """The probabilities of the images that are kept, by class id."""

    validation: StoredPixels
    exemplars: StoredPixels
    validation_probabilities: Tensor  # (n, classes)
    exemplar_probabilities: Tensor  # (m, classes), left one out where the learner can
    left_out: bool  # whether they are

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.validation_probabilities.shape[1]

    def confusion(self) -> Tensor:
        """Return how many validation images of each class (rows) are predicted as each class (columns)."""
        found = self.validation_probabilities.argmax(1) if self.classes else self.validation.labels
        counts = torch.zeros(self.classes, self.classes, dtype=torch.int64)
        return counts.index_put((self.validation.labels, found), torch.tensor(1), accumulate=True)

    def mistakes(self, limit: int) -> list[ReviewedImage]:
        """Return the validation images that are predicted wrongly, the most confident first."""
        images = _reviewed(self.validation, self.validation_probabilities)
        wrong = [image for image in images if image.predicted != image.label]
        return sorted(wrong, key=lambda image: -image.confidence)[:limit]

    def suspects(self, limit: int) -> list[ReviewedImage]:
        """Return the images whose label is improbable: another class is predicted with more than half.

        They are ordered by how much more probable that class is. Validation images and, where they are left one out
        or the model has not memorised them, exemplars.
        """
        images = [
            *_reviewed(self.validation, self.validation_probabilities),
            *_reviewed(self.exemplars, self.exemplar_probabilities),
        ]
        wrong = [image for image in images if image.predicted != image.label and image.confidence > 0.5]
        return sorted(wrong, key=lambda image: image.own - image.confidence)[:limit]

    def alike(self, limit: int) -> list[tuple[ClassId, ClassId, float]]:
        """Return the pairs of classes that the model mixes up most, the most alike first.

        Their likeness is the mean probability that images of one have of being the other, in both directions.
        """
        labels = torch.cat([self.validation.labels, self.exemplars.labels])
        probabilities = torch.cat([self.validation_probabilities, self.exemplar_probabilities]).double()
        sums = torch.zeros(self.classes, self.classes, dtype=torch.float64).index_add(0, labels, probabilities)
        means = sums / torch.bincount(labels, minlength=self.classes).clamp_min(1)[:, None]
        likeness = ((means + means.T) / 2).triu(1)
        order = likeness.flatten().argsort(descending=True, stable=True)[:limit].tolist()
        pairs = [(*divmod(place, self.classes), float(likeness.flatten()[place])) for place in order]
        return [pair for pair in pairs if pair[2] >= 0.01]


def review(model: Model, validation: StoredPixels, exemplars: StoredPixels) -> Review:
    """Predict the images that a model keeps, each alone."""
    left_out = _left_out(model, exemplars)
    return Review(
        validation,
        exemplars,
        _probabilities(model, validation.pixels),
        _probabilities(model, exemplars.pixels) if left_out is None else left_out,
        left_out is not None,
    )


def _left_out(model: Model, exemplars: StoredPixels) -> Tensor | None:
    leave_one_out: Any = getattr(model.learner, "left_out_prediction", None)
    if leave_one_out is None or not len(exemplars.labels):
        return None
    found: Prediction | None = leave_one_out(exemplars.pixels, exemplars.labels)
    return None if found is None else _by_class(found, len(model.manifest.classes))


def _probabilities(model: Model, pixels: Tensor) -> Tensor:
    classes = len(model.manifest.classes)
    parts = [part for part in pixels.split(BATCH) if len(part)]
    found = [_by_class(model.ready.predict(part, torch.arange(len(part))), classes) for part in parts]
    return torch.cat([torch.zeros(0, classes), *found])


def _by_class(prediction: Prediction, classes: int) -> Tensor:
    """Return the probabilities with the columns in the order of class ids."""
    found = prediction.probabilities.new_zeros(len(prediction.probabilities), classes)
    found[:, list(prediction.columns)] = prediction.probabilities
    return found.float()


def _reviewed(stored: StoredPixels, probabilities: Tensor) -> list[ReviewedImage]:
    if not len(stored.labels):
        return []
    confidence, predicted = probabilities.max(1)
    own = probabilities.gather(1, stored.labels[:, None]).flatten()
    rows = zip(stored.labels.tolist(), predicted.tolist(), confidence.tolist(), own.tolist(), strict=True)
    return [ReviewedImage(pixels, *row) for pixels, row in zip(stored.pixels, rows, strict=True)]
