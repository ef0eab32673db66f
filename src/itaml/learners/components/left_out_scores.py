r"""Scores of LDA for training images that are left out, each alone or with images like it.

A mean of few images is noisy, which makes its squared length too large by d / n_c, with d the mean squared distance of
a new image to its class's true mean, and its class too seldom the winner. The scores add d / (2 n_c), with d estimated
from the left-out images: it matters where classes differ in their number of images, as they do when one image of one
class is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from itaml.learners.components.left_out_products import Products, WhitenedImages, products_each_left_out
from itaml.learners.components.linear_heads import whiten
from itaml.learners.components.statistics import FeatureStatistics, within_scatter

SHRINKAGES = (0.05, 0.1, 0.2, 0.3, 0.5)
DEFAULT_SHRINKAGE = 0.5


@dataclass(frozen=True, eq=False)
class LeftOutScores:
    """Scores of images that LDA was not fitted to. A class's only image has no score at its own class."""

    products: Products
    columns: Tensor  # (n,): column of the right class
    counts: Tensor  # (n, classes): images that each class mean rests on; 0 where the only image was left out

    @property
    def alone(self) -> Tensor:
        """Which images are the only ones of their class (n,)."""
        return self.counts.amin(1) < 1

    @cached_property
    def noise(self) -> float:
        """Mean squared distance of a new image to the true mean of its class; 0 if it cannot be estimated."""
        own = (~self.alone).nonzero()[:, 0], self.columns[~self.alone]
        if not len(own[0]):
            return 0.0
        found = self.products
        distances = found.squares[own[0]] - 2 * found.inner[own] + found.mean_squares[own]
        return float((distances * self.counts[own] / (self.counts[own] + 1)).mean())

    @cached_property
    def scores(self) -> Tensor:
        """Corrected scores (n, classes), up to a constant per image; -inf at the own class of a class's only image."""
        scores = self.corrected(self.products)
        scores[self.alone, self.columns[self.alone]] = -torch.inf
        return scores

    def corrected(self, products: Products) -> Tensor:
        """Return the scores (n, classes) of other products of the same images."""
        return products.inner - products.mean_squares / 2 + self.noise / (2 * self.counts.clamp_min(1))

    @property
    def accuracy(self) -> float:
        """Share of images whose own class scores highest."""
        return float((self.scores.argmax(1) == self.columns).double().mean())


def columns_of(statistics: FeatureStatistics, labels: Tensor) -> Tensor:
    """Return the row of each label's class (n,)."""
    rows = {label: row for row, label in enumerate(statistics.classes)}
    return torch.tensor([rows[label] for label in labels.tolist()], dtype=torch.int64)


def whitened_images(
    statistics: FeatureStatistics,
    features: Tensor,
    columns: Tensor,
    *,
    shrinkage: float,
    scatter: Tensor | None = None,
    shown: Tensor | None = None,
    fast: bool = False,
) -> WhitenedImages | None:
    """Return training images as LDA sees them; None if there are too few to leave one out and have a covariance.

    Args:
        statistics: of all training images.
        features: some of these images (n, features).
        columns: their classes (n,), as rows of the statistics, or of `shown`.
        shrinkage: see `shrunk_covariance`.
        scatter: that within classes, if it is known already.
        shown: rows of the classes that take part (k,); all if not given.
        fast: in single precision, which takes half as long and does for a calibration; not where the shrinkage is so
            weak that the covariance may be near singular.
    """
    freedom, size = statistics.total - len(statistics.classes) - 1, statistics.features
    if freedom < 1 or not len(features):
        return None
    scatter = within_scatter(statistics) if scatter is None else scatter
    level = float(scatter.trace()) / size / (freedom + 1)
    if level <= 0:
        return None
    scale = (1 - shrinkage) / freedom
    covariance = scale * scatter
    covariance.diagonal().add_(shrinkage * level)
    dtype = torch.float32 if fast and shrinkage >= min(SHRINKAGES) else torch.float64
    factor = torch.linalg.cholesky(covariance.to(dtype))
    means, counts = statistics.means, statistics.counts
    center = means.mean(0)
    if shown is not None:
        means, counts = means[shown], counts[shown]
    together = torch.cat([features.double() - center, means - center]).to(dtype)
    images, whitened = whiten(together, factor).split([len(features), len(means)])
    return WhitenedImages(images, whitened, columns, counts, scale)


def left_out_counts(counts: Tensor, columns: Tensor, groups: Tensor) -> Tensor:
    """Return how many of the images of each class (classes,) are left (n, classes) when each group is left out."""
    counts = counts.double().repeat(len(columns), 1)
    counts[torch.arange(len(columns)), columns] -= (groups >= 0).sum(1)
    return counts


def choose_shrinkage(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkages: Sequence[float] = SHRINKAGES,
    scatter: Tensor | None = None,
) -> float:
    """Return the largest shrinkage whose leave-one-out accuracy is within one standard error of the best.

    Training images are often taken on one occasion, and new ones on another; the stronger shrinkage is the safer one
    where the images do not show a difference. Shrinkages are tried from the strongest on, until one is no better than
    those before. Only the classes of the images given take part. With too few images it is the largest of `shrinkages`.
    `scatter` is that within classes, if it is known already.
    """
    shown, columns = columns_of(statistics, labels).unique(return_inverse=True)
    counts = left_out_counts(statistics.counts[shown], columns, torch.arange(len(columns))[:, None])
    scatter, accuracy, best = within_scatter(statistics) if scatter is None else scatter, {}, -1.0
    for shrinkage in sorted(shrinkages, reverse=True):
        white = whitened_images(
            statistics, features, columns, shrinkage=shrinkage, scatter=scatter, shown=shown, fast=True
        )
        if white is None:
            return max(shrinkages)
        accuracy[shrinkage] = LeftOutScores(products_each_left_out(white), columns, counts).accuracy
        if accuracy[shrinkage] <= best:
            break
        best = accuracy[shrinkage]
    error = (best * (1 - best) / len(features)) ** 0.5
    return max(shrinkage for shrinkage, found in accuracy.items() if found >= best - error)
