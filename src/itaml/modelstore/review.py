"""What a model makes of the images that it keeps: mistakes, classes that look alike, labels that look wrong.

Validation images were never trained on. Exemplars were, so their probabilities say little, unless the learner can tell
what it would predict if it had not learned them (leave-one-out, exact for learners of sums).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.learners.left_out import can_leave_out, left_out_probabilities
from itaml.learners.statistics_learner import StatisticsLearner
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
class Predicted:
    """What the model says of images, by class id. The class of the best task need not be the most probable one."""

    classes: Tensor  # (n,)
    probabilities: Tensor  # (n, classes)


@dataclass(frozen=True, eq=False)
class Review:
    """The images that are kept, and what the model says of them."""

    held: StoredPixels  # validation images, and exemplars if they are predicted as if they had not been learned
    held_predicted: Predicted
    trained: StoredPixels  # exemplars otherwise
    trained_predicted: Predicted
    left_out: bool  # whether exemplars are among `held`

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.held_predicted.probabilities.shape[1]

    def confusion(self) -> Tensor:
        """Return how many images of each class (rows) that were not trained on are predicted as each class."""
        counts = torch.zeros(self.classes, self.classes, dtype=torch.int64)
        found = self.held_predicted.classes
        return counts.index_put((self.held.labels, found), torch.tensor(1), accumulate=True)

    def mistakes(self, limit: int) -> list[ReviewedImage]:
        """Return the images that were not trained on and are predicted wrongly, the most confident first."""
        images = _reviewed(self.held, self.held_predicted)
        wrong = [image for image in images if image.predicted != image.label]
        return sorted(wrong, key=lambda image: -image.confidence)[:limit]

    def suspects(self, limit: int) -> list[ReviewedImage]:
        """Return the images whose label is improbable: another class is predicted with more than half.

        They are ordered by how much more probable that class is. A model may have memorised wrong labels of images that
        it was trained on; those are not found.
        """
        images = [
            *_reviewed(self.held, self.held_predicted),
            *_reviewed(self.trained, self.trained_predicted),
        ]
        wrong = [image for image in images if image.predicted != image.label and image.confidence > 0.5]
        return sorted(wrong, key=lambda image: image.own - image.confidence)[:limit]

    def alike(self, limit: int) -> list[tuple[ClassId, ClassId, float]]:
        """Return the pairs of classes that the model mixes up most, the most alike first.

        Their likeness is the mean probability that images of one have of being the other, in both directions.
        """
        labels = torch.cat([self.held.labels, self.trained.labels])
        each = (self.held_predicted, self.trained_predicted)
        probabilities = torch.cat([one.probabilities for one in each]).double()
        sums = torch.zeros(self.classes, self.classes, dtype=torch.float64).index_add(0, labels, probabilities)
        means = sums / torch.bincount(labels, minlength=self.classes).clamp_min(1)[:, None]
        likeness = ((means + means.T) / 2).triu(1)
        order = likeness.flatten().argsort(descending=True, stable=True)[:limit].tolist()
        pairs = [(*divmod(place, self.classes), float(likeness.flatten()[place])) for place in order]
        return [pair for pair in pairs if pair[2] >= 0.01]


def review(model: Model, validation: StoredPixels, exemplars: StoredPixels) -> Review:
    """Predict the images that a model keeps, each alone."""
    held = _predicted(model, validation.pixels)
    left_out = _left_out(model, exemplars)
    if left_out is None:
        return Review(validation, held, exemplars, _predicted(model, exemplars.pixels), left_out=False)
    both = StoredPixels(
        torch.cat([validation.pixels, exemplars.pixels]), torch.cat([validation.labels, exemplars.labels])
    )
    nothing = StoredPixels(exemplars.pixels[:0], exemplars.labels[:0])
    none = _predicted(model, nothing.pixels)
    return Review(both, _joined([held, Predicted(left_out.argmax(1), left_out)]), nothing, none, left_out=True)


def _left_out(model: Model, exemplars: StoredPixels) -> Tensor | None:
    if not len(exemplars.labels) or len(model.manifest.classes) < 2 or not can_leave_out(model.core):
        return None
    samples = _learned_samples(model.core, model.samples(exemplars.pixels), exemplars.labels)
    found = left_out_probabilities(model.core, samples, exemplars.labels)
    return None if found is None else _by_class(found, model.task_map.classes)


def _learned_samples(learner: StatisticsLearner, samples: Tensor, labels: Tensor) -> Tensor:
    """Return for each sample the nearest that was learned of its class.

    Features of compressed files differ a little from those that were learned, and only what is in the sums can be left
    out of them.
    """
    found = samples.clone()
    for label in labels.unique().tolist():
        kept = learner.memory.exemplars([label])
        if kept is not None:
            own, learned = (labels == label).nonzero().flatten(), kept.load()[0]
            nearest = torch.cdist(samples[own].flatten(1).double(), learned.flatten(1).double()).argmin(1)
            found[own] = learned[nearest].to(found.dtype)
    return found


def _predicted(model: Model, pixels: Tensor) -> Predicted:
    parts = [Predicted(torch.zeros(0, dtype=torch.int64), torch.zeros(0, len(model.manifest.classes)))]
    for part in pixels.split(BATCH):
        if len(part):
            found = model.core.predict(model.samples(part), torch.arange(len(part)))
            parts.append(Predicted(found.classes, _by_class(found.probabilities, found.columns)))
    return _joined(parts)


def _joined(parts: Sequence[Predicted]) -> Predicted:
    return Predicted(torch.cat([part.classes for part in parts]), torch.cat([part.probabilities for part in parts]))


def _by_class(probabilities: Tensor, columns: Sequence[ClassId]) -> Tensor:
    """Return probabilities with the columns in the order of class ids, which are 0, 1, ... without gaps."""
    order = sorted(range(len(columns)), key=columns.__getitem__)
    return probabilities[:, order].float()


def _reviewed(stored: StoredPixels, found: Predicted) -> list[ReviewedImage]:
    if not len(stored.labels):
        return []
    confidence, own = (found.probabilities.gather(1, c[:, None]).flatten() for c in (found.classes, stored.labels))
    rows = zip(stored.labels.tolist(), found.classes.tolist(), confidence.tolist(), own.tolist(), strict=True)
    return [ReviewedImage(pixels, *row) for pixels, row in zip(stored.pixels, rows, strict=True)]
