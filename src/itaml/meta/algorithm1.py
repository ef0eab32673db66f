"""The outer loop of Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from itaml import distributed
from itaml.params import Weights, lerp, mean, subtract

Batch = TypeVar("Batch")


def meta_step(
    base: Weights, batches: Sequence[Batch], *, adapt: Callable[[Weights, Batch], Weights], eta: float
) -> Weights:
    """Return the weights after one iteration of Algorithm 1 (lines 4 to 14).

    Args:
        base: the weights before the inner loops, Phi_base.
        batches: one micro-batch for each task seen, empty ones included. In a run over several processes the
            micro-batches of tasks that other processes adapt are empty here.
        adapt: the inner loop: the weights of one task, Phi_i, from the base and a micro-batch.
        eta: how far to move from the base to the mean.
    """
    adapted = [adapt(base, batch) for batch in batches]  # every task starts from the same base
    return lerp(base, over_processes(base, mean(adapted)), eta)


def over_processes(base: Weights, mean: Weights) -> Weights:
    """Return the mean of the adapted weights of all processes, each of which has adapted other tasks.

    A task that is not adapted stays at the base, so that the ways from the base to the processes' means add up.
    """
    if distributed.size() == 1:
        return mean
    moved = distributed.total(subtract(mean, base))  # one all-reduce
    return {name: base[name] + moved[name] for name in base}


def released_step(
    base: Weights, batches: Sequence[Batch], *, adapt: Callable[[Weights, Batch], Weights], eta: float
) -> Weights:
    """Return the weights after one iteration as the authors' released code computes it.

    There, the reset to the base before each task has no effect and the stored task models are one and the same, so that
    tasks are trained one after another and the last weights stand for the mean.
    """
    sequential = base
    for batch in batches:
        sequential = adapt(sequential, batch)
    return lerp(base, sequential, eta)
