"""Temperature scaling (Guo, Pleiss, Sun and Weinberger, ICML 2017): probabilities that mean what they say."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.optimizers import minimize

LEAST, MOST = 1e-3, 1e4


def fit_temperature(scores: Tensor, targets: Tensor) -> float:
    """Return the temperature T with the least cross-entropy of softmax(scores / T).

    Args:
        scores: of samples that were not learned, or left out (n, classes).
        targets: right column of each (n,); samples whose own class has no finite score are ignored.
    """
    usable = scores.gather(1, targets[:, None]).flatten().isfinite()
    scores, targets = scores[usable].double(), targets[usable]
    if not len(scores):
        return 1.0
    finite = scores[scores.isfinite()]
    start = float((finite.max() - finite.min()).clamp_min(1e-6) / 10)
    log = torch.tensor([start], dtype=torch.float64).log().requires_grad_()
    minimize([log], lambda: F.cross_entropy(scores / log.exp(), targets), tolerance_grad=1e-9)
    temperature = float(log.detach().exp())
    return min(max(temperature, LEAST), MOST) if temperature == temperature else 1.0  # noqa: PLR0124 (NaN)
