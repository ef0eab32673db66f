"""The controller of the outer step: eta = exp(-beta * t / T)."""

from __future__ import annotations

import math


def eta(task: int, *, beta: float, horizon: int | None) -> float:
    """Return how far the outer loop moves towards the mean of the adapted weights.

    | symbol | meaning                                          |
    |--------|--------------------------------------------------|
    | t      | number of the task under way; the first is 1     |
    | T      | number of tasks of the whole stream (`horizon`)  |
    | beta   | decay rate; 0 keeps eta at 1                     |

    The paper's text and its Lemma 2 have t/T (its Algorithm 1 prints i/t, which we take for a slip). Where T is not
    known, t/T is replaced by (t - 1)/t: the first task is learned at full speed, eta falls with every task, and it
    tends to exp(-beta), which is where the paper's rule ends. A task beyond the stated horizon keeps exp(-beta).
    """
    elapsed = max(task - 1, 0) / max(task, 1) if horizon is None else min(task / horizon, 1.0)
    return math.exp(-beta * elapsed)
