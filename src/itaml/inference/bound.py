"""Algorithm 4: how many samples a continuum needs, and its inverse: how accurate the task is with n samples.

| symbol | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| P0     | probability that a sample's largest response is at its own class                    |
| U, t   | classes per task, tasks seen; N = U * t for tasks of one size                       |
| P0_hat | probability that it is at some class of its own task: P0 + (1 - P0) (U - 1)/(N - 1) |
| n      | samples in the continuum                                                            |
| gamma  | wanted probability that the task is right                                           |

The task counts as found when more than round(n/t) samples, the number that chance would give it, point to it; `round`
is Python's, and `rounding="floor"` takes floor(n/t) instead. The paper prints round, but its n = 17 for CIFAR-100
follows only from floor and from the authors' estimate of P0 (`minimum_accuracy`); with round it is 22.

Differences from the paper: its Algorithm 4 drops the leading "P0 +" of P0_hat that its text has, and we follow the
text; with a single task there is nothing to find, so one sample is enough, where the formula gives none. For tasks of
different sizes P0_hat differs between tasks; every result is about the task that is hardest to find, the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from itaml.errors import BoundError, SettingsError

Rounding = Literal["round", "floor"]
ROUNDINGS = {"round": np.rint, "floor": np.floor}  # rint: halves to even, like round()
MOST = 1_000_000  # samples; a bound beyond it is of no use to anybody


def minimum_accuracy(accuracies: Sequence[float]) -> float:
    """Return P0 as the authors computed it from the accuracy of single samples after each task, at least 0.

    P0 = mean - (1 - 1/e) (max - min): a low estimate of the accuracy, where the paper speaks of the minimum.

    Raises:
        SettingsError: there are no accuracies, or one is not a probability.
    """
    if not accuracies:
        raise SettingsError("the minimum accuracy needs the accuracy after at least one task")
    for accuracy in accuracies:
        _check_accuracy(accuracy)
    spread = max(accuracies) - min(accuracies)
    return max(0.0, math.fsum(accuracies) / len(accuracies) - (1 - 1 / math.e) * spread)


def own_task_probability(accuracy: float, sizes: Sequence[int]) -> float:
    """Return P0_hat of the hardest task, for tasks of the given numbers of classes.

    Raises:
        SettingsError: the accuracy is not a probability, or the sizes are not sizes.
    """
    _check_accuracy(accuracy)
    if not sizes or min(sizes) < 1:
        raise SettingsError(f"there must be tasks, of at least one class each, not {list(sizes)}")
    classes = sum(sizes)
    if classes == 1:
        return 1.0
    return accuracy + (1 - accuracy) * (min(sizes) - 1) / (classes - 1)


def task_accuracy(n: int, *, accuracy: float, sizes: Sequence[int], rounding: Rounding = "round") -> float:
    """Return the probability that the task of a continuum of n samples is found.

    Raises:
        SettingsError: n is less than 1, the rounding is unknown, or see `own_task_probability`.
    """
    if n < 1:
        raise SettingsError(f"n must be >= 1 (got {n})")
    own = own_task_probability(accuracy, sizes)
    return float(_found(np.array([n]), own, len(sizes), rounding)[0])


def continuum_size(*, accuracy: float, sizes: Sequence[int], gamma: float, rounding: Rounding = "round") -> int:
    """Return the smallest n whose task accuracy is above gamma.

    Raises:
        SettingsError: gamma is not between 0 and 1, the rounding is unknown, or see `own_task_probability`.
        BoundError: no n reaches gamma.
    """
    if not 0 < gamma < 1:
        raise SettingsError(f"gamma must be > 0 and < 1 (got {gamma})")
    own = own_task_probability(accuracy, sizes)
    first, last = 1, 1_000
    while first <= MOST:
        n = np.arange(first, last + 1)
        enough = np.flatnonzero(_found(n, own, len(sizes), rounding) > gamma)
        if len(enough):
            return int(n[enough[0]])
        first, last = last + 1, last * 10
    reason = f"the right task has a response of its own in {own:.3f} of samples, chance gives it {1 / len(sizes):.3f}"
    raise BoundError(f"no continuum of up to {MOST:,} samples reaches a task accuracy of {gamma}: {reason}")


def _check_accuracy(accuracy: float) -> None:
    if not 0 <= accuracy <= 1:
        raise SettingsError(f"accuracy must be between 0 and 1 (got {accuracy})")


def _found(n: NDArray[np.int64], own: float, tasks: int, rounding: Rounding) -> NDArray[np.float64]:
    """Return P(correct task) for each n: the upper tail of a binomial distribution."""
    if rounding not in ROUNDINGS:
        raise SettingsError(f"rounding must be 'round' or 'floor' (got {rounding!r})")
    if tasks == 1:
        return np.ones(len(n))
    expected = ROUNDINGS[rounding](n / tasks)
    return np.where(expected >= n, 0.0, bdtrc(np.minimum(expected, n - 1), n, own))
