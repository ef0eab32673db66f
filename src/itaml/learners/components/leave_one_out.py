r"""Leave-one-out scores of LDA in closed form: each training image as if it had not been learned.

Leaving image x of class c out changes its mean to m_c - r / (n_c - 1) and the within-class scatter by a matrix of rank
one, -n_c / (n_c - 1) r r^T, with r = x - m_c. The Sherman-Morrison formula gives the inverse:

    P' = P + t u u^T,   u = P r,   k = (1 - a) n_c / ((n_c - 1)(N - C - 1)),   t = k / (1 - k r^T u)

with P the inverse of (1 - a) W_s / (N - C - 1) + l I, W_s the within-class scatter of all images. The ridge l is kept
as it is with all images; otherwise the scores are exactly those of a classifier fitted to the other N - 1 images. They
choose the shrinkage, the temperature and the threshold for unknown images without a validation split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.learners.components.statistics import FeatureStatistics, within_scatter

SHRINKAGES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Scores and squared Mahalanobis distances of images to every class, the image itself left out."""

    scores: Tensor  # (n, classes): -inf at the own class of a class's only image
    distances: Tensor  # (n, classes): inf there
    columns: Tensor  # (n,): column of the right class

    @property
    def accuracy(self) -> float:
        """Share of images whose own class scores highest."""
        return float((self.scores.argmax(1) == self.columns).double().mean())


def leave_one_out(
    statistics: FeatureStatistics, features: Tensor, labels: Tensor, *, shrinkage: float
) -> LeaveOneOut | None:
    """Return the leave-one-out scores of images that are part of the statistics.

    Args:
        statistics: of all training images.
        features: some or all of these images (n, features).
        labels: their classes (n,).
        shrinkage: see `shrunk_covariance`.

    Returns:
        None if there are too few images to leave one out and still have a covariance.
    """
    freedom = statistics.total - len(statistics.classes) - 1
    if freedom < 1 or not len(features):
        return None
    scatter = within_scatter(statistics)
    size = statistics.features
    level = float(scatter.trace()) / size / (freedom + 1)
    if level <= 0:
        return None
    covariance = (1 - shrinkage) / freedom * scatter + shrinkage * level * torch.eye(size, dtype=torch.float64)
    factor = torch.linalg.cholesky(covariance)
    columns = torch.tensor([statistics.row(label) for label in labels.tolist()])
    return _leave_out(statistics, features.double(), columns, factor, (1 - shrinkage) / freedom)


def _leave_out(statistics: FeatureStatistics, x: Tensor, columns: Tensor, factor: Tensor, scale: float) -> LeaveOneOut:
    means, counts = statistics.means, statistics.counts.double()[columns]  # (classes, d), (n,)
    rows = torch.arange(len(x))
    others = (counts - 1).clamp_min(1)  # a class's only image: its own column is overwritten below
    residuals = x - means[columns]
    u = torch.cholesky_solve(residuals.T, factor).T  # (n, d)
    px = torch.cholesky_solve(x.T, factor).T
    k = scale * counts / others
    ru = (residuals * u).sum(1)
    t = k / (1 - k * ru).clamp_min(1e-12)  # the matrix stays positive definite; rounding may say otherwise
    xu, mu = (x * u).sum(1), u @ means.T  # (n,), (n, classes)
    xm = px @ means.T
    mm = (torch.cholesky_solve(means.T, factor) * means.T).sum(0).repeat(len(x), 1)
    own = mu[rows, columns]
    mm[rows, columns] += -2 * own / others + ru / others.square()
    xm[rows, columns] -= xu / others
    mu[rows, columns] -= ru / others
    scores = xm + t[:, None] * mu * xu[:, None] - (mm + t[:, None] * mu.square()) / 2
    squares = (x * px).sum(1) + t * xu.square()
    alone = counts < 2
    scores[rows[alone], columns[alone]] = -torch.inf
    return LeaveOneOut(scores, squares[:, None] - 2 * scores, columns)


def choose_shrinkage(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkages: Sequence[float] = SHRINKAGES,
    default: float = 0.5,
) -> float:
    """Return the shrinkage with the best leave-one-out accuracy; ties go to the strongest, few images to `default`."""
    best, chosen = -1.0, default
    for shrinkage in sorted(shrinkages, reverse=True):
        left_out = leave_one_out(statistics, features, labels, shrinkage=shrinkage)
        if left_out is not None and left_out.accuracy > best:
            best, chosen = left_out.accuracy, shrinkage
    return chosen
