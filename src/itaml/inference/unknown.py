"""Say when an image is none of the known classes.

Three signals, each larger for images that look like a known class, are computed from the class means and the shrunk
within-class covariance of LDA. With q and m_c the image and the class means relative to the mean of the class means,
whitened by that covariance, and f, f_c the unwhitened feature vectors:

| signal | formula |
|---|---|
| cosine | max_c cos(f, f_c) |
| relative distance | -min_c |q - m_c|^2 / |q|^2 |
| projection | max_c q . m_c / |m_c|^2 |

A head that has only scores uses two signals of these: the energy (log-sum-exp) and the log-odds of the most probable
class.

Their standardised sum is the score. Means, standard deviations and the threshold come from leave-one-out signals of the
training images, which behave as unseen ones: the threshold is the quantile at which a wanted share of them is refused.
With a single class only the cosine says anything; the other two signals are constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from itaml.errors import SettingsError

SIGNALS = ("cosine", "relative distance", "projection")
FEW = 40  # with fewer images than this the 5 % quantile rests on one image: a normal distribution is more stable
ROUNDING = 1e-9  # images that are all alike are not refused for the rounding of their scores
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class UnknownDetector:
    """How to turn signals into one score, and below which score an image is unknown."""

    mean: Tensor  # (signals,) of known images
    std: Tensor  # (signals,)
    threshold: float  # -inf: no image is ever called unknown

    def score(self, signals: Tensor) -> Tensor:
        """Return the score (n,) of signals (n, signals); larger for known images."""
        return ((signals - self.mean) / self.std).sum(1)

    def is_unknown(self, signals: Tensor) -> Tensor:
        """Return which images are none of the known classes (n,)."""
        return self.score(signals) < self.threshold


def signals_of(inner: Tensor, squares: Tensor, mean_squares: Tensor, cosines: Tensor) -> Tensor:
    """Return the three signals (n, 3).

    Args:
        inner: q . m_c (n, classes).
        squares: |q|^2 (n,).
        mean_squares: |m_c|^2 (n, classes) or (1, classes).
        cosines: cos(f, f_c) (n, classes).
    """
    if inner.shape[1] == 1:
        constant = torch.zeros(inner.shape[0], dtype=inner.dtype)
        return torch.stack([cosines.amax(1), constant, constant], 1)
    distances = squares[:, None] - 2 * inner + mean_squares
    relative = -distances.amin(1) / squares.clamp_min(_TINY)
    projection = (inner / mean_squares.clamp_min(_TINY)).amax(1)
    return torch.stack([cosines.amax(1), relative, projection], 1)


def score_signals(scores: Tensor) -> Tensor:
    """Return the energy and the log-odds of the most probable class (n, 2) from calibrated scores (n, classes)."""
    values = scores.double()
    if values.shape[1] == 1:
        return torch.stack([values[:, 0], torch.zeros(values.shape[0], dtype=torch.float64)], 1)
    best = values.argmax(1, keepdim=True)
    others = values.scatter(1, best, -torch.inf).logsumexp(1)
    return torch.stack([values.logsumexp(1), values.gather(1, best)[:, 0] - others], 1)


def cosine_similarity(features: Tensor, means: Tensor) -> Tensor:
    """Return the cosines (n, classes) between features (n, d) and class means (classes, d)."""
    lengths = features.norm(dim=1, keepdim=True).clamp_min(_TINY)
    cosines: Tensor = (features / lengths) @ (means / means.norm(dim=1, keepdim=True).clamp_min(_TINY)).T
    return cosines


def fit_unknown_detector(signals: Tensor, *, refuse: float = 0.05) -> UnknownDetector:
    """Calibrate on signals of known images that were not learned, such as leave-one-out signals.

    Args:
        signals: (n, signals); with fewer than two images nothing can be calibrated, and nothing is ever refused.
        refuse: share of known images that may be called unknown.

    Raises:
        SettingsError: `refuse` is not between 0 and 1.
    """
    if not 0 < refuse < 1:
        raise SettingsError(f"refuse must be > 0 and < 1 (got {refuse})")
    if len(signals) < 2:
        size = signals.shape[1]
        return UnknownDetector(torch.zeros(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64), -math.inf)
    values = signals.double()
    spread = values.std(0)
    std = torch.where(spread > _TINY, spread, torch.ones_like(spread))
    known = ((values - values.mean(0)) / std).sum(1)
    if len(known) < FEW:
        threshold = float(known.mean() + NormalDist().inv_cdf(refuse) * known.std())
    else:
        threshold = float(known.quantile(refuse))
    return UnknownDetector(values.mean(0), std, threshold - ROUNDING)


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Return the probability that a known image scores higher than an unknown one, ties counted half."""
    order = torch.sort(unknown).values
    below = torch.searchsorted(order, known, right=False).double()
    up_to = torch.searchsorted(order, known, right=True).double()
    return float((below + up_to).sum() / (2 * len(known) * len(unknown)))
