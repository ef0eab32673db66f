"""`ClassGaussians`: mean and covariance of the features of every class, carried along as the backbone changes.

They are computed when all images of a class are there. Later tasks change the backbone: features f of images before a
task and g after it, of the new task and the exemplars, give a ridge regression g = f B + c, under which a mean m
becomes m B + c and a covariance C becomes B^T C B. A covariance is kept as L^T L + diag(v), with `RANK` rows of L, so
that a class takes (RANK + 2) d numbers for d features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.errors import CheckpointError
from itaml.inference.feature_drift import FeatureDrift, Features, features_of, ridge_map

RANK = 8


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The distribution of the features of a class."""

    count: int  # images
    mean: Tensor  # (d,)
    directions: Tensor  # (at most RANK, d): L
    variances: Tensor  # (d,): v

    @property
    def covariance(self) -> Tensor:
        """The covariance (d, d), in double precision."""
        directions = self.directions.double()
        return directions.T @ directions + torch.diag(self.variances.double())

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw features (count, d)."""
        common = torch.randn(count, len(self.directions), generator=generator)
        own = torch.randn(count, len(self.mean), generator=generator)
        return self.mean + common @ self.directions + own * self.variances.sqrt()


class ClassGaussians:
    """Gaussians by class id.

    Args:
        features: maps pixels to features of the present backbone (n, d), on the CPU.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._drift = FeatureDrift(features)
        self._by_class: dict[ClassId, Gaussian] = {}

    def of(self, classes: Sequence[ClassId]) -> list[Gaussian] | None:
        """Return the Gaussians of these classes, None if one of them has none."""
        found = [self._by_class.get(class_id) for class_id in classes]
        return None if None in found else [gaussian for gaussian in found if gaussian is not None]

    def before_task(self, images: ImageSet) -> None:
        """Compute the features of what a task is to be trained on, while the backbone is as it was."""
        if self._by_class:
            self._drift.begin(images)

    def after_task(self, classes: Sequence[ClassId], images: ImageSet) -> None:
        """Carry all Gaussians along to the present backbone, with the same images, and compute those of new classes."""
        features = self._drift.end(images)
        if features is not None:
            matrix, offset = ridge_map(*features)
            self._by_class = {class_id: _carried(one, matrix, offset) for class_id, one in self._by_class.items()}
        for class_id in classes:
            own = features_of(images.of_classes([class_id]), self._features)
            self._by_class[class_id] = fit_gaussian(own)

    def remove(self, class_id: ClassId) -> None:
        """Forget a class."""
        self._by_class.pop(class_id, None)

    def merge(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one; without a Gaussian of both it has none."""
        one, other = self._by_class.pop(source, None), self._by_class.pop(target, None)
        if one is not None and other is not None:
            self._by_class[target] = _merged(one, other)

    def renumber(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id."""
        self._by_class = {ids[class_id]: one for class_id, one in self._by_class.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the Gaussians, and what is needed to continue in the middle of a task."""
        classes = {str(class_id): vars(one).copy() for class_id, one in self._by_class.items()}
        return {"classes": classes, "before": self._drift.before}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore what `state_dict` returned; None is nothing.

        Raises:
            CheckpointError: it is something else.
        """
        state = state or {"classes": {}, "before": torch.empty(0)}
        try:
            self._by_class = {
                int(class_id): Gaussian(
                    int(one["count"]), one["mean"].clone(), one["directions"].clone(), one["variances"].clone()
                )
                for class_id, one in state["classes"].items()
            }
            self._drift.before = state["before"].clone()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"not saved Gaussians of classes: {error!r}") from error


def fit_gaussian(features: Tensor) -> Gaussian:
    """Return the Gaussian of the features of a class (n, d)."""
    values = features.double()
    mean = values.mean(0)
    moved = values - mean
    return _gaussian(len(values), mean, moved.T @ moved / len(values))


def _gaussian(count: int, mean: Tensor, covariance: Tensor) -> Gaussian:
    """Return a Gaussian whose covariance has the first directions of this one, and its diagonal."""
    values, vectors = torch.linalg.eigh(covariance)
    largest = values[-RANK:].clamp_min(0)
    directions = (vectors[:, -RANK:] * largest.sqrt()).T
    variances = (covariance.diagonal() - directions.square().sum(0)).clamp_min(0)
    return Gaussian(count, mean.float(), directions.float(), variances.float())


def _carried(one: Gaussian, matrix: Tensor, offset: Tensor) -> Gaussian:
    return _gaussian(one.count, one.mean.double() @ matrix + offset, matrix.T @ one.covariance @ matrix)


def _merged(one: Gaussian, other: Gaussian) -> Gaussian:
    total = one.count + other.count
    first, second = one.count / total, other.count / total
    apart = (one.mean - other.mean).double()
    within = first * one.covariance + second * other.covariance
    mean = first * one.mean.double() + second * other.mean.double()
    return _gaussian(total, mean, within + first * second * torch.outer(apart, apart))
