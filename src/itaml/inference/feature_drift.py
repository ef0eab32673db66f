"""How features change while a task is learned: those of the same images before and after it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from itaml.data.images import ImageSet

RIDGE = 1e-3  # relative to the mean variance of the features
MOST = 10_000  # images whose features are computed
BATCH = 500  # images that are read at a time
Features = Callable[[Tensor], Tensor]


class FeatureDrift:
    """Features of what a task is trained on, kept until the task is learned.

    Args:
        features: maps pixels to features of the present backbone (n, d), on the CPU.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self.before = torch.empty(0)  # features before the task under way (n, d)

    def begin(self, images: ImageSet) -> None:
        """Compute the features of what a task is to be trained on, while the backbone is as it was."""
        self.before = self._of(images)

    def end(self, images: ImageSet) -> tuple[Tensor, Tensor] | None:
        """Return the features before and after the task (n, d each), of the same images; None if it did not begin."""
        before, self.before = self.before, torch.empty(0)
        return (before, self._of(images)) if len(before) else None

    def _of(self, images: ImageSet) -> Tensor:
        return features_of(images, self._features)


def ridge_map(inputs: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return B (d, d) and c (d,): the outputs are about inputs @ B + c; both are of the same images (n, d)."""
    inputs, outputs = inputs.double(), outputs.double()
    centre, other = inputs.mean(0), outputs.mean(0)
    moved = inputs - centre
    gram = moved.T @ moved
    level = (gram.trace() / len(gram)).clamp_min(1e-12)
    ridge = RIDGE * level * torch.eye(len(gram), dtype=gram.dtype)
    matrix = torch.linalg.solve(gram + ridge, moved.T @ (outputs - other))
    return matrix, other - centre @ matrix


def features_of(images: ImageSet, features: Features) -> Tensor:
    """Return the features of at most `MOST` images (n, d), which are read in batches."""
    return torch.cat([features(images.batch(rows)[0]) for rows in spread(len(images)).split(BATCH)])


def spread(count: int) -> Tensor:
    """Return at most `MOST` positions of `count`, evenly spread."""
    return torch.arange(count) if count <= MOST else torch.linspace(0, count - 1, MOST).long()
