"""Algorithm 3 on features: a softmax head of one task alone, anchored to the generic head.

| symbol  | meaning                                                                                     |
|---------|---------------------------------------------------------------------------------------------|
| W, b    | rows of the head for the task's own classes; W0, b0 are those of the generic head           |
| anchor  | a in: mean cross-entropy over the task's own columns + a (|W - W0|^2 + |b - b0|^2)          |
| lda     | share of linear discriminant analysis in the pooled log-probabilities                       |

The problem is convex, and L-BFGS takes `steps` iterations on features that are computed once: no seed, no rate.
With no steps, or with an infinite anchor, the head is the generic one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.inference.task_distance import shrunk_covariance
from itaml.optimizers import minimize

Scores = Callable[[Tensor], Tensor]  # features (n, d) -> scores of the task's own columns (n, size)


@dataclass(frozen=True, eq=False)
class OwnHead:
    """Scores features by W f + b."""

    weight: Tensor  # (size, d)
    bias: Tensor  # (size,)

    def __call__(self, features: Tensor) -> Tensor:
        """Return the scores (n, size)."""
        return F.linear(features.to(self.weight.dtype), self.weight, self.bias)

    def double(self) -> OwnHead:
        """Return the same head in double precision, with weights of its own."""
        return OwnHead(self.weight.detach().double().clone(), self.bias.detach().double().clone())


def fit_anchored(generic: OwnHead, features: Tensor, targets: Tensor, *, anchor: float, steps: int) -> OwnHead:
    """Return a head of the task's own columns, in double precision.

    Args:
        generic: the rows of the generic head, which are not changed.
        features: of images of the task (n, d).
        targets: position of each image's class among the task's classes (n,).
        anchor: weight of the squared distance from the generic head.
        steps: iterations of L-BFGS.
    """
    start, head = generic.double(), generic.double()
    if steps == 0 or math.isinf(anchor) or not len(targets):
        return head
    values, variables = features.double(), [head.weight.requires_grad_(), head.bias.requires_grad_()]

    def objective() -> Tensor:
        moved = (head.weight - start.weight).square().sum() + (head.bias - start.bias).square().sum()
        return F.cross_entropy(head(values), targets) + anchor * moved

    minimize(variables, objective, tolerance_grad=1e-7, max_iter=steps)
    return OwnHead(head.weight.detach(), head.bias.detach())


def fit_lda(features: Tensor, targets: Tensor, size: int) -> OwnHead:
    """Return linear discriminant analysis of a task's own classes, every class of which has an image."""
    values = features.double()
    counts = torch.bincount(targets, minlength=size).double()
    means = values.new_zeros(size, values.shape[1]).index_add(0, targets, values) / counts[:, None]
    weight = torch.linalg.solve(shrunk_covariance(values - means[targets], classes=size), means.T).T
    return OwnHead(weight, -(weight * means).sum(1) / 2)


def pooled(parts: list[tuple[float, Scores]]) -> Scores:
    """Return the weighted mean of the log-probabilities of several heads; one alone is left as it is."""
    used = [(weight, scores) for weight, scores in parts if weight > 0]
    if len(used) == 1:
        return used[0][1]

    def mean(features: Tensor) -> Tensor:
        return torch.stack([weight * scores(features).double().log_softmax(1) for weight, scores in used]).sum(0)

    return mean


def no_better(adapted: Scores, generic: Scores, features: Tensor, targets: Tensor) -> bool:
    """Whether adapted scores neither lower the loss of held-out images nor keep as many of them right."""
    before, after = (scores(features).double() for scores in (generic, adapted))
    hits = [(scores.argmax(1) == targets).sum() for scores in (before, after)]
    return not (F.cross_entropy(after, targets) < F.cross_entropy(before, targets) and hits[1] >= hits[0])
