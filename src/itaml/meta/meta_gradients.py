"""First-order meta-gradients over all weights, as Reptile and FOMAML have them.

An inner loop walks from the base, one step of SGD on each of k batches of one task, and meets the gradients

    g_1 = L_1'(base),   g_2 = L_2'(base - alpha g_1),   ...,   g_k

Reptile's meta-gradient is g_1 + ... + g_k, and FOMAML's is g_k, the gradient of a batch that no step was taken on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from torch import Tensor

from itaml.params import Weights

Batch = TypeVar("Batch")
Gradient = Callable[[Weights, Batch], Weights]


def path_gradients(base: Weights, batches: Iterable[Batch], *, gradient: Gradient[Batch], lr: float) -> list[Weights]:
    """Return g_1 to g_k of an inner loop that starts at `base`.

    Args:
        base: where the loop starts; it is not changed.
        batches: of one task, in the order in which they are used.
        gradient: of the loss of a batch at some weights.
        lr: alpha, the rate of the inner steps.
    """
    weights = base
    gradients: list[Weights] = []
    for batch in batches:
        if gradients:
            weights = {name: value - lr * gradients[-1][name] for name, value in weights.items()}
        gradients.append(gradient(weights, batch))
    return gradients


def total(gradients: Sequence[Weights], shares: Sequence[float] | None = None) -> Weights:
    """Return the sum of gradients, each times its share if shares are given."""
    factors = [1.0] * len(gradients) if shares is None else shares
    return {
        name: _sum([factor * gradient[name] for factor, gradient in zip(factors, gradients, strict=True)])
        for name in gradients[0]
    }


def _sum(values: Sequence[Tensor]) -> Tensor:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result
