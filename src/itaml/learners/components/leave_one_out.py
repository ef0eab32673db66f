r"""Leave-one-out scores of LDA in closed form: each training image as if it had not been learned.

Leaving image x of class c out changes its mean to m_c - r / (n_c - 1) and the within-class scatter by a matrix of rank
one, -n_c / (n_c - 1) r r^T, with r = x - m_c. The Sherman-Morrison formula gives the inverse:

    P' = P + t u u^T,   u = P r,   k = (1 - a) n_c / ((n_c - 1)(N - C - 1)),   t = k / (1 - k r^T u)

with P the inverse of (1 - a) W_s / (N - C - 1) + l I, W_s the within-class scatter of all images. The ridge l and the
origin (the mean of the class means) are kept as they are with all images; otherwise the values are exactly those of a
classifier fitted to the other N - 1 images.

A mean of few images is noisy, which makes its squared length too large by d / n_c, with d the mean squared distance of
a new image to its class's true mean, and its class too seldom the winner. The scores add d / (2 n_c), with d estimated
from the left-out images: it matters where classes differ in their number of images, as they do when one image of one
class is left out. They choose the shrinkage, the temperature and the threshold for unknown
images without a validation split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.inference.unknown import cosine_similarity, signals_of
from itaml.learners.components.linear_heads import whiten
from itaml.learners.components.statistics import FeatureStatistics, within_scatter

SHRINKAGES = (0.05, 0.1, 0.2, 0.3, 0.5)
DEFAULT_SHRINKAGE = 0.5


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What LDA says of images that it was not fitted to. A class's only image has no value at its own class.

    All products are those of `itaml.inference.unknown.signals_of`.
    """

    inner: Tensor  # (n, classes)
    squares: Tensor  # (n,)
    mean_squares: Tensor  # (n, classes)
    cosines: Tensor  # (n, classes)
    columns: Tensor  # (n,): column of the right class
    counts: Tensor  # (n, classes): images that each class mean rests on; 0 where the only image was left out

    @property
    def alone(self) -> Tensor:
        """Which images are the only ones of their class (n,)."""
        return self.counts.amin(1) < 1

    @property
    def noise(self) -> float:
        """Mean squared distance of a new image to the true mean of its class; 0 if it cannot be estimated."""
        own = (~self.alone).nonzero()[:, 0], self.columns[~self.alone]
        if not len(own[0]):
            return 0.0
        distances = self.squares[own[0]] - 2 * self.inner[own] + self.mean_squares[own]
        return float((distances * self.counts[own] / (self.counts[own] + 1)).mean())

    @property
    def scores(self) -> Tensor:
        """Corrected scores (n, classes), up to a constant per image; -inf at the own class of a class's only image."""
        scores = self.inner - self.mean_squares / 2 + self.noise / (2 * self.counts.clamp_min(1))
        scores[self.alone, self.columns[self.alone]] = -torch.inf
        return scores

    @property
    def signals(self) -> Tensor:
        """Signals for the detection of unknown images (m, 3), of the images that are not alone in their class."""
        keep = ~self.alone
        return signals_of(self.inner[keep], self.squares[keep], self.mean_squares[keep], self.cosines[keep])

    @property
    def accuracy(self) -> float:
        """Share of images whose own class scores highest."""
        return float((self.scores.argmax(1) == self.columns).double().mean())


def leave_one_out(
    statistics: FeatureStatistics, features: Tensor, labels: Tensor, *, shrinkage: float
) -> LeaveOneOut | None:
    """Return what LDA says of training images when each is left out.

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
    rows = {label: row for row, label in enumerate(statistics.classes)}
    columns = torch.tensor([rows[label] for label in labels.tolist()])
    return _leave_out(statistics, features.double(), columns, factor, (1 - shrinkage) / freedom)


def _leave_out(
    statistics: FeatureStatistics, features: Tensor, columns: Tensor, factor: Tensor, scale: float
) -> LeaveOneOut:
    center = statistics.means.mean(0)
    x, means = whiten(features - center, factor), whiten(statistics.means - center, factor)
    counts = statistics.counts.double()[columns]
    others = (counts - 1).clamp_min(1)  # 1 for a class's only image, whose own column is not used
    own = torch.arange(len(x)), columns
    r = x - means[columns]  # whitened: u . v below is u^T P v
    k = scale * counts / others
    rr, xr, mr = r.square().sum(1), (x * r).sum(1), r @ means.T  # (n,), (n,), (n, classes)
    t = k / (1 - k * rr).clamp_min(1e-12)  # the matrix stays positive definite; rounding may say otherwise
    inner, mean_squares = x @ means.T, means.square().sum(1).repeat(len(x), 1)
    mean_squares[own] += -2 * mr[own] / others + rr / others.square()
    inner[own] -= xr / others
    mr[own] -= rr / others
    cosines = cosine_similarity(features, statistics.means)
    without = (statistics.sums[columns] - features) / others[:, None]
    cosines[own] = torch.nn.functional.cosine_similarity(features, without, dim=1)
    left = statistics.counts.double().repeat(len(x), 1)
    left[own] -= 1
    return LeaveOneOut(
        inner=inner + (t * xr)[:, None] * mr,
        squares=x.square().sum(1) + t * xr.square(),
        mean_squares=mean_squares + t[:, None] * mr.square(),
        cosines=cosines,
        columns=columns,
        counts=left,
    )


def choose_shrinkage(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkages: Sequence[float] = SHRINKAGES,
) -> float:
    """Return the largest shrinkage whose leave-one-out accuracy is within one standard error of the best.

    Training images are often taken on one occasion, and new ones on another; the stronger shrinkage is the safer one
    where the images do not tell the difference. With too few images it is the largest of `shrinkages`.
    """
    accuracy = {}
    for shrinkage in shrinkages:
        left_out = leave_one_out(statistics, features, labels, shrinkage=shrinkage)
        if left_out is None:
            return max(shrinkages)
        accuracy[shrinkage] = left_out.accuracy
    best = max(accuracy.values())
    error = (best * (1 - best) / len(features)) ** 0.5
    return max(shrinkage for shrinkage, found in accuracy.items() if found >= best - error)
