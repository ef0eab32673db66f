"""Calibrate confidence: one temperature, fitted to scores of images that were not learned.

Guo et al., *On Calibration of Modern Neural Networks*, ICML 2017. The temperature changes no prediction, only how sure
the probabilities are. The negative log-likelihood is convex in 1 / T, so a bounded scalar search finds its minimum.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

FEWEST = 10  # images; below, the default stays
BOUNDS = (1e-3, 1e4)


def fit_temperature(scores: Tensor, columns: Tensor, *, default: float = 1.0, smooth: bool = False) -> float:
    """Return the temperature under which softmax(scores / T) has the highest likelihood.

    Args:
        scores: (n, classes); rows whose right class scores -inf (the only image of its class) are left out.
        columns: column of the right class (n,).
        default: what is returned with one class or fewer than ten images.
        smooth: count one image more that is of a class drawn at random (after Platt, 1999), so that a few images that
            are all right do not make the probabilities certain.
    """
    own = scores.gather(1, columns[:, None])[:, 0]
    usable = own.isfinite()
    scores, columns = scores[usable].double(), columns[usable]
    if len(scores) < FEWEST or scores.shape[1] < 2:
        return default

    def loss(log_temperature: float) -> float:
        logits = scores / math.exp(log_temperature)
        anyone = logits.log_softmax(1).mean() if smooth else 0.0  # of a class drawn at random
        return float(F.cross_entropy(logits, columns) - anyone / len(columns))

    low, high = map(math.log, BOUNDS)
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x))
