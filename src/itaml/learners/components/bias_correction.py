"""Stage 2 of BiC: the correction of the logits of new classes, fitted to validation images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.optimizers import minimize

L2_PENALTY = 1e-3  # on the distance from (1, 0)


def fit_bias(scores: Tensor, targets: Tensor, new: slice) -> tuple[float, float]:
    """Return the alpha and beta of the columns `new` with the least cross-entropy (eq. 5), with a small L2 penalty."""
    scores = scores.double()
    pair = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    start = pair.detach().clone()

    def objective() -> Tensor:
        corrected = scores.clone()
        corrected[:, new] = pair[0] * scores[:, new] + pair[1]
        return F.cross_entropy(corrected, targets) + L2_PENALTY * (pair - start).square().sum()

    minimize([pair], objective, tolerance_grad=1e-10, tolerance_change=1e-14)
    alpha, beta = pair.detach().tolist()
    return alpha, beta
