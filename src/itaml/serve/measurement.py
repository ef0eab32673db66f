"""How well a model knows its classes, on images that were not trained on: validation images and exemplars left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from itaml.modelstore.accuracy import BATCH, left_out, predict_alone
from itaml.modelstore.loaded_model import Model

Origin = Literal["leave-one-out", "validation"]


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many images of each class (rows) are predicted as each class (columns)."""

    classes: tuple[str, ...]
    counts: Tensor  # (classes, classes)
    source: Origin | None  # None: there is nothing to measure

    @property
    def accuracy(self) -> float | None:
        """The share of all images that is right."""
        total = int(self.counts.sum())
        return int(self.counts.diagonal().sum()) / total if total else None

    @property
    def by_class(self) -> dict[str, float | None]:
        """The share of each class's images that is right."""
        totals, right = self.counts.sum(1).tolist(), self.counts.diagonal().tolist()
        return {
            name: good / total if total else None for name, good, total in zip(self.classes, right, totals, strict=True)
        }


def measure(model: Model) -> ClassCounts:
    """Predict the images that a model keeps and was not trained on, each alone among all classes."""
    classes = model.manifest.classes
    counts = torch.zeros(len(classes), len(classes), dtype=torch.int64)
    if model.learner is None:
        return ClassCounts(classes, counts, None)
    one = torch.tensor(1)
    source: Origin | None = None
    for label, samples in model.validation_images.items():
        for part in samples.split(BATCH):
            if len(part):
                found = predict_alone(model.core, part)
                counts.index_put_((torch.full_like(found, label), found), one, accumulate=True)
                source = "validation"
    labels, predicted = left_out(model.core)
    if len(labels):
        counts.index_put_((labels, predicted), one, accumulate=True)
        source = "leave-one-out"
    return ClassCounts(classes, counts, source)


def forgotten(before: ClassCounts, after: ClassCounts) -> dict[str, float]:
    """Return by how much the accuracy of each class fell, for those whose accuracy fell."""
    old, new = before.by_class, after.by_class
    drops = {name: (value, new.get(name)) for name, value in old.items()}
    return {
        name: round(was - now, 6)
        for name, (was, now) in drops.items()
        if was is not None and now is not None and was > now
    }
