"""Task scores calibrated on the exemplars.

The heads of tasks learned apart need not respond on one scale. A multinomial logistic model maps each sample's largest
responses per task, s (n, tasks), to its task: log-softmax(a_i * s_i + b_i), with a gain and one offset per task. It is
fitted on the exemplar memory, every task weighing the same, with a small L2 penalty on the gains' distance from their
mean and on the offsets, so that few exemplars do no harm. The problem is convex and solved by L-BFGS in double
precision: no seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.losses import task_weights
from itaml.optimizers import minimize

RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class TaskCalibration:
    """A gain and an offset for each task."""

    gain: Tensor  # (tasks,)
    offset: Tensor  # (tasks,)

    def __call__(self, scores: Tensor) -> Tensor:
        """Return log-probabilities (n, tasks)."""
        return F.log_softmax(scores.double() * self.gain + self.offset, dim=1)


def fit_task_calibration(scores: Tensor, tasks: Tensor) -> TaskCalibration:
    """Fit on the exemplars' scores (n, tasks) and their tasks (n,)."""
    count = scores.shape[1]
    scores = scores.double()
    scale = scores.std().clamp_min(1e-12)
    gain = torch.full((count,), float(1 / scale), dtype=torch.float64, requires_grad=True)
    offset = torch.zeros(count, dtype=torch.float64, requires_grad=True)
    weights = task_weights(tasks, count, dtype=torch.float64)

    def objective() -> Tensor:
        losses = F.cross_entropy(scores * gain + offset, tasks, reduction="none")
        l2_penalty = ((gain - gain.mean()) * scale).square().sum() + offset.square().sum()
        return (losses * weights).sum() + RIDGE * l2_penalty

    minimize([gain, offset], objective, tolerance_grad=1e-9)
    return TaskCalibration(gain.detach(), offset.detach())
