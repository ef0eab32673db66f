"""Expected calibration error (Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from itaml.metrics.samples import Samples

BINS = 15
DIGITS = 4  # of the metric of a run: a hundredth of a percentage point


def expected_calibration_error(confidence: Tensor, hits: Tensor, *, bins: int = BINS) -> float:
    """Return the mean over samples of the gap between confidence and accuracy in bins of equal width.

    Bin b holds the samples whose confidence is in ((b - 1) / bins, b / bins]; each bin counts by its samples (eq. 3).

    Args:
        confidence: probability of the predicted class (n,).
        hits: whether the predicted class is right (n,).
        bins: how many.
    """
    number = (confidence.double() * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.float64).index_add(0, number, hits.double() - confidence.double())
    return float(gaps.abs().sum() / len(confidence))


def calibration_error(samples: Samples) -> float | None:
    """Return the expected calibration error of single samples, None for a learner without probabilities.

    It is the only metric that is not a share of counted samples, and follows every rounding of the weights. It is
    rounded to `DIGITS`, so that runs whose weights differ by rounding (threads, processes) have equal metrics.
    """
    if bool(samples.confidence.isnan().any()):
        return None
    return round(expected_calibration_error(samples.confidence, samples.hits), DIGITS)
