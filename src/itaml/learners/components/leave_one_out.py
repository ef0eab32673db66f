r"""What LDA says of training images that are left out, and of the same images with their whole class left out.

Images that are left out behave as unseen images of known classes, and images whose class is left out as images of no
known class. They set the temperature, weigh the signals of unknown images and set their threshold, without a validation
split. See `left_out_products` for the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.inference.unknown import cosine_similarity, signals_of
from itaml.learners.components.left_out_products import Products, products_left_out
from itaml.learners.components.left_out_scores import LeftOutScores, columns_of, left_out_counts, whitened_images
from itaml.learners.components.similar_images import similar_images, with_mates
from itaml.learners.components.statistics import FeatureStatistics
from itaml.models.pretraining_classes import PretrainingClasses

MOST_CLASSES = 256  # of more, affinities are computed with those of the images that are left out alone


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Images that LDA was not fitted to: scores, and what the signals of unknown images are made of."""

    known: LeftOutScores
    unknown: Products  # with the whole class left out; the own column means nothing
    cosines: Tensor  # (n, classes)
    affinities: Tensor | None  # (n, classes)

    @property
    def columns(self) -> Tensor:
        """Column of the right class (n,)."""
        return self.known.columns

    @property
    def scores(self) -> Tensor:
        """See `LeftOutScores.scores`."""
        return self.known.scores

    @property
    def accuracy(self) -> float:
        """Share of images whose own class scores highest."""
        return self.known.accuracy

    def signals(self, temperature: float) -> Tensor:
        """Return the signals (m, signals) of the images that are not alone in their class."""
        products = self.known.products
        logits = self.known.corrected(products) / temperature
        found = signals_of(products.inner, products.mean_squares, logits, self.cosines, self.affinities)
        return found[~self.known.alone]

    def unknown_signals(self, temperature: float) -> Tensor | None:
        """Return the signals (n, signals) of the images with their class left out; None of fewer than three classes."""
        classes = self.cosines.shape[1]
        if classes < 3:
            return None
        own = F.one_hot(self.columns, classes).bool()
        inner, logits, cosines = (
            values.masked_fill(own, -torch.inf)
            for values in (self.unknown.inner, self.known.corrected(self.unknown) / temperature, self.cosines)
        )
        affinities = None if self.affinities is None else self.affinities.masked_fill(own, -torch.inf)
        return signals_of(inner, self.unknown.mean_squares, logits, cosines, affinities)


def scores_left_out(
    statistics: FeatureStatistics, features: Tensor, labels: Tensor, *, shrinkage: float
) -> Tensor | None:
    """Return the scores of `leave_one_out` (n, classes), without what only unknown images need."""
    columns = columns_of(statistics, labels)
    white = whitened_images(statistics, features, columns, shrinkage=shrinkage)
    if white is None:
        return None
    groups = similar_images(features.double() - statistics.means[columns], columns, statistics.counts)
    products = products_left_out(white, groups, classes=False)[0]
    return LeftOutScores(products, columns, left_out_counts(statistics.counts, columns, groups)).scores


def leave_one_out(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkage: float,
    pretraining: PretrainingClasses | None = None,
    rows: Tensor | None = None,
    scatter: Tensor | None = None,
    fast: bool = False,
) -> LeaveOneOut | None:
    """Return what LDA says of training images when each is left out, with images of the same occasion.

    Args:
        statistics: of all training images.
        features: some or all of these images (n, features).
        labels: their classes (n,).
        shrinkage: see `shrunk_covariance`.
        pretraining: the classifier of the backbone, for the affinities.
        rows: the images to leave out (m,), all if not given; the others only go with images of their occasion.
        scatter: that within classes, if it is known already.
        fast: see `whitened_images`.

    Returns:
        None if there are too few images to leave one out and still have a covariance.
    """
    columns = columns_of(statistics, labels)
    classes = None if rows is None else columns[rows].unique().tolist()
    residuals = features.float() - statistics.means.float()[columns]
    groups = similar_images(residuals, columns, statistics.counts, classes=classes)
    if rows is not None:
        taken, groups = with_mates(groups, rows)
        features, columns = features[taken], columns[taken]
    white = whitened_images(statistics, features, columns, shrinkage=shrinkage, scatter=scatter, fast=fast)
    if white is None:
        return None
    products, unknown = products_left_out(white, groups)
    own = columns[: len(groups)]
    known = LeftOutScores(products, own, left_out_counts(statistics.counts, own, groups))
    return LeaveOneOut(
        known, unknown, *_similarities(statistics, features.to(white.images.dtype), own, groups, pretraining)
    )


def feature_variance(statistics: FeatureStatistics) -> Tensor:
    """Return the variance of each feature within classes (features,)."""
    squares = statistics.moment.diagonal() - (statistics.means * statistics.sums).sum(0)
    return squares.clamp_min(0) / max(statistics.total - len(statistics.classes), 1)


def _similarities(
    statistics: FeatureStatistics,
    features: Tensor,
    columns: Tensor,
    groups: Tensor,
    pretraining: PretrainingClasses | None,
) -> tuple[Tensor, Tensor | None]:
    """Return cosines and affinities (n, classes) with each group left out of the mean of its class."""
    own, dtype = (torch.arange(len(columns)), columns), features.dtype
    removed = torch.cat([features, torch.zeros_like(features[:1])])[groups].sum(1)  # row -1 is that of no image
    features = features[: len(columns)]
    left = (statistics.counts[columns] - (groups >= 0).sum(1)).clamp_min(1)[:, None]  # 1 for a class's only image
    without, means = (statistics.sums[columns].to(dtype) - removed) / left, statistics.means.to(dtype)
    cosines = cosine_similarity(features, means)
    cosines[own] = F.cosine_similarity(features, without, dim=1)
    if pretraining is None:
        return cosines, None
    variance = feature_variance(statistics).to(dtype)
    roots, affinities = pretraining.roots(features), torch.full_like(cosines, -torch.inf)
    shown = torch.arange(len(means)) if len(means) <= MOST_CLASSES else columns.unique()
    affinities[:, shown] = roots @ pretraining.roots(means[shown], variance).T
    affinities[own] = (roots * pretraining.roots(without, variance)).sum(1)
    return cosines, affinities
