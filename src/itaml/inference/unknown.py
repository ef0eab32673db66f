"""Say when an image is none of the known classes.

Four signals, each larger for images that look like a known class. With q and m_c the image and the class means relative
to the mean of the class means, whitened by LDA's covariance, f and f_c the unwhitened feature vectors, and p and p_c
what the classifier that the backbone was trained with says of the image and of the class mean:

| signal | formula | it is low where |
|---|---|---|
| cosine | max_c cos(f, f_c) | the image looks like no class |
| projection | max_c q . m_c / |m_c|^2 | what makes a class differ from the others is missing |
| log-odds | log p / (1 - p) of the most probable class | several classes are as likely |
| affinity | max_c sum_j sqrt(p_j p_cj) | ImageNet has another name for the image |

The affinity needs a backbone that comes with its classifier. A head that has only scores uses two signals: the energy
(log-sum-exp) and the log-odds.

The score is a weighted sum of standardised signals. Means, standard deviations and the threshold come from signals of
training images that were left out, which behave as unseen ones: the threshold is the quantile at which a wanted share
of them is refused. The weights are those of a logistic regression between these images and the same ones seen by a
classifier without their class: which signal says most differs between sets of classes. They are kept near equal
weights, and are never negative. With a single class only the cosine and the affinity say anything; the other signals
are constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from itaml.errors import SettingsError

SIGNALS = ("cosine", "projection", "log-odds", "affinity")
FEW = 40  # with fewer images than this the 5 % quantile rests on one image: a normal distribution is more stable
PENALTY = 0.03  # on the squared distance of the weights from equal ones
ROUNDING = 1e-9  # images that are all alike are not refused for the rounding of their scores
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class UnknownDetector:
    """How to turn signals into one score, and below which score an image is unknown."""

    mean: Tensor  # (signals,) of known images
    std: Tensor  # (signals,)
    threshold: float  # -inf: no image is ever called unknown
    weights: Tensor | None = None  # (signals,); None: one each

    def score(self, signals: Tensor) -> Tensor:
        """Return the score (n,) of signals (n, signals); larger for known images."""
        values = (signals - self.mean) / self.std
        return values.sum(1) if self.weights is None else values @ self.weights

    def is_unknown(self, signals: Tensor) -> Tensor:
        """Return which images are none of the known classes (n,)."""
        return self.score(signals) < self.threshold


def signals_of(
    inner: Tensor, mean_squares: Tensor, logits: Tensor, cosines: Tensor, affinities: Tensor | None = None
) -> Tensor:
    """Return the signals (n, 3), or (n, 4) with affinities.

    Args:
        inner: q . m_c (n, classes); -inf where a class does not take part, in all of these.
        mean_squares: |m_c|^2 (n, classes) or (1, classes).
        logits: calibrated scores of the classes (n, classes).
        cosines: cos(f, f_c) (n, classes).
        affinities: sum_j sqrt(p_j p_cj) (n, classes).
    """
    if inner.shape[1] == 1:
        projection = odds = torch.zeros(inner.shape[0], dtype=inner.dtype)
    else:
        projection = (inner / mean_squares.clamp_min(_TINY)).amax(1)
        odds = score_signals(logits)[:, 1]
    found = [cosines.amax(1), projection, odds.to(inner.dtype)]
    return torch.stack(found if affinities is None else [*found, affinities.amax(1)], 1)


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


def fit_unknown_detector(signals: Tensor, *, unknown: Tensor | None = None, refuse: float = 0.05) -> UnknownDetector:
    """Calibrate on signals of known images that were not learned, such as leave-one-out signals.

    Args:
        signals: (n, signals); with fewer than two images nothing can be calibrated, and nothing is ever refused.
        unknown: signals of images of no known class (m, signals), which weigh the signals; None weighs all the same.
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
    mean, spread = values.mean(0), values.std(0)
    std = torch.where(spread > _TINY, spread, torch.ones_like(spread))
    known = (values - mean) / std
    weights = None if unknown is None else signal_weights(known, (unknown.double() - mean) / std)
    scores = known.sum(1) if weights is None else known @ weights
    if len(scores) < FEW:
        threshold = float(scores.mean() + NormalDist().inv_cdf(refuse) * scores.std())
    else:
        threshold = float(scores.quantile(refuse))
    return UnknownDetector(mean, std, threshold - ROUNDING, weights)


def signal_weights(known: Tensor, unknown: Tensor, *, penalty: float = PENALTY) -> Tensor:
    """Return the weights (signals,) of a logistic regression of known against unknown images, near equal ones.

    Args:
        known: standardised signals (n, signals).
        unknown: standardised signals (m, signals); with none the weights are equal.
        penalty: on the squared distance from equal weights that add up to one.
    """
    size = known.shape[1]
    equal = np.full(size, 1 / size)
    if not len(unknown) or not len(known):
        return torch.from_numpy(equal)
    values = torch.cat([known, unknown]).numpy()
    signs = np.concatenate([np.ones(len(known)), -np.ones(len(unknown))])
    share = np.concatenate([np.full(len(part), 0.5 / len(part)) for part in (known, unknown)])

    def loss(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        away = parameters[:-1] - equal
        margins = signs * (values @ parameters[:-1] + parameters[-1])
        derivatives = -signs * share / (1 + np.exp(np.minimum(margins, 700)))
        gradient = np.append(values.T @ derivatives + 2 * penalty * away, derivatives.sum())
        return float(share @ np.logaddexp(0, -margins) + penalty * (away**2).sum()), gradient

    bounds = [(0.0, None)] * size + [(None, None)]
    found = minimize(loss, np.append(equal, 0.0), jac=True, method="L-BFGS-B", bounds=bounds)
    return torch.from_numpy(np.asarray(found.x[:-1], dtype=np.float64))


def auroc(known: Tensor, unknown: Tensor) -> float:
    """Return the probability that a known image scores higher than an unknown one, ties counted half."""
    order, known = torch.sort(unknown).values, known.contiguous()
    below = torch.searchsorted(order, known, right=False).double()
    up_to = torch.searchsorted(order, known, right=True).double()
    return float((below + up_to).sum() / (2 * len(known) * len(unknown)))
