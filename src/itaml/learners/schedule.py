"""The course of the learning rate through a task."""

from __future__ import annotations

import math
from typing import Protocol


class ScheduleSettings(Protocol):
    """The settings that a schedule reads."""

    @property
    def schedule(self) -> str:
        """`constant`, `step` or `cosine`."""

    @property
    def warmup(self) -> float:
        """Share of a task's steps in which the rate rises to lr."""

    @property
    def milestones(self) -> tuple[int, ...]:
        """Epochs after which `step` multiplies lr by `lr_decay`."""

    @property
    def lr_decay(self) -> float:
        """Factor of `step`."""


def lr_factor(settings: ScheduleSettings, progress: float, *, epochs: int) -> float:
    """Return what lr is multiplied by after `progress` epochs (a whole number and a fraction) of a task of `epochs`."""
    share = progress / epochs
    if share < settings.warmup:
        return max(share / settings.warmup, 0.01)
    if settings.schedule == "cosine":
        after = (share - settings.warmup) / (1 - settings.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(after, 1.0)))
    if settings.schedule == "step":
        return float(settings.lr_decay ** sum(progress >= milestone for milestone in settings.milestones))
    return 1.0
