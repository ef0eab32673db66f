"""`Samples`: what is known of each test image after it was predicted alone (p = 1), for metrics that measure."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """Test images of all tasks seen so far, each predicted alone."""

    labels: Tensor  # (n,) class ids
    tasks: Tensor  # (n,) true tasks
    hits: Tensor  # (n,) whether the class is right
    confidence: Tensor  # (n,) probability of the predicted class; NaN from a learner that gives none
