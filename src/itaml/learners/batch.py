"""What passes between the loop over epochs and a method."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """A mini-batch of the union of the new task's data and the exemplars."""

    images: Tensor  # (n, c, h, w) augmented pixels
    targets: Tensor  # (n,) columns
    tasks: Tensor  # (n,) task of each sample
    rows: Tensor | None = None  # (n,) position of each sample in what the task is trained on, where that is known


@dataclass(frozen=True)
class Progress:
    """How far a task that is under way has come."""

    task: int
    epoch: int  # epochs done
