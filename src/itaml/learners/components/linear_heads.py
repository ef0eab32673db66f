"""Linear classifiers that follow exactly from `FeatureStatistics`: LDA, ridge regression, RanPAC, nearest class mean.

| head | score of class c for features f |
|---|---|
| LDA | m_c^T P f - m_c^T P m_c / 2, with P the inverse of the shrunk within-class covariance |
| ridge | least squares to one-hot targets with an L2 penalty, intercept included by default |
| RanPAC | ridge without intercept on h = relu(f R), R random (McDonnell et al., NeurIPS 2023) |
| NCM | m_c^T f - m_c^T m_c / 2: the nearest class mean; LDA with the identity as covariance |

All classes have the same prior. The solutions depend on the statistics alone, and so not on the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.errors import SettingsError
from itaml.learners.components.statistics import FeatureStatistics, within_scatter


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Scores of classes as an affine function of the features."""

    classes: tuple[int, ...]
    weight: Tensor  # (classes, features) float64
    bias: Tensor  # (classes,) float64

    def __call__(self, features: Tensor) -> Tensor:
        """Return the scores (n, classes) of features (n, features)."""
        return features.double() @ self.weight.T + self.bias


def shrunk_covariance(statistics: FeatureStatistics, shrinkage: float) -> Tensor:
    """Return (1 - a) W + a tr(W)/d I, with W the pooled within-class covariance.

    With one image per class W is zero. The identity takes its place, scaled to the variance of the class means, and LDA
    becomes the nearest class mean.

    Raises:
        SettingsError: `shrinkage` is not above 0 and at most 1.
    """
    if not 0 < shrinkage <= 1:
        raise SettingsError(f"shrinkage must be > 0 and <= 1 (got {shrinkage})")
    size = statistics.features
    freedom = statistics.total - len(statistics.classes)
    identity = torch.eye(size, dtype=torch.float64)
    within = within_scatter(statistics) / max(freedom, 1)
    level = within.trace() / size
    if freedom < 1 or float(level) <= 0:  # one image per class, or every image of a class is the same
        spread = statistics.means - statistics.means.mean(0)
        variance = float(spread.square().mean())
        return identity * (variance if variance > 0 else 1.0)
    return (1 - shrinkage) * within + shrinkage * level * identity


def whiten(values: Tensor, factor: Tensor) -> Tensor:
    """Return L^-1 v for each row v of `values` (n, d), with L the lower Cholesky factor of a covariance (d, d)."""
    whitened: Tensor = torch.linalg.solve_triangular(factor, values.T, upper=False).T
    return whitened


def lda(statistics: FeatureStatistics, *, shrinkage: float) -> LinearHead:
    """Return linear discriminant analysis with a shared, shrunk covariance and equal priors.

    Raises:
        SettingsError: see `shrunk_covariance`.
    """
    factor = torch.linalg.cholesky(shrunk_covariance(statistics, shrinkage))
    means = statistics.means
    weight = torch.cholesky_solve(means.T, factor).T
    return LinearHead(statistics.classes, weight.contiguous(), -(weight * means).sum(1) / 2)


def nearest_mean(statistics: FeatureStatistics) -> LinearHead:
    """Return the classifier that names the class whose mean is nearest."""
    means = statistics.means
    return LinearHead(statistics.classes, means, -means.square().sum(1) / 2)


def ridge(statistics: FeatureStatistics, *, penalty: float, intercept: bool = True) -> LinearHead:
    """Return ridge regression to one-hot targets.

    Raises:
        SettingsError: `penalty` is not above 0.
    """
    if penalty <= 0:
        raise SettingsError(f"penalty must be > 0 (got {penalty})")
    moment, targets = statistics.moment, statistics.sums.T  # (d, d), (d, classes)
    total = statistics.total
    center = statistics.sums.sum(0) / total if intercept else torch.zeros(statistics.features, dtype=torch.float64)
    share = statistics.counts.double() / total
    gram = moment - total * torch.outer(center, center)
    gram = gram + penalty * torch.eye(len(gram), dtype=torch.float64)
    factor = torch.linalg.cholesky((gram + gram.T) / 2)
    weight = torch.cholesky_solve(targets - total * torch.outer(center, share), factor).T
    bias = share - weight @ center if intercept else torch.zeros(len(share), dtype=torch.float64)
    return LinearHead(statistics.classes, weight.contiguous(), bias)


def random_projection(features: int, width: int, *, seed: int) -> Tensor:
    """Return RanPAC's projection R (features, width), standard normal, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(features, width, generator=generator, dtype=torch.float64)


def project(features: Tensor, projection: Tensor) -> Tensor:
    """Return h = relu(f R) (n, width)."""
    return (features.double() @ projection).relu()
