"""Weight algebra: the few operations on named weights that the algorithms are written in.

Every function returns new tensors that share no storage with its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


def snapshot(module: nn.Module) -> Weights:
    """Copy a module's parameters, detached."""
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def snapshot_buffers(module: nn.Module) -> Weights:
    """Copy a module's buffers (batch-norm statistics and the like)."""
    return {name: value.detach().clone() for name, value in module.named_buffers()}


def restore(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write `weights` into the module's parameters and buffers of the same names, in place."""
    with torch.no_grad():
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in weights.items():
            own[name].copy_(value)


def copy(weights: Mapping[str, Tensor]) -> Weights:
    """Copy every tensor."""
    return {name: value.clone() for name, value in weights.items()}


def mean(many: Sequence[Mapping[str, Tensor]]) -> Weights:
    """Average weights name by name; counters (integer tensors) take their largest value."""
    return {name: _mean([weights[name] for weights in many]) for name in many[0]}


def lerp(start: Mapping[str, Tensor], end: Mapping[str, Tensor], amount: float) -> Weights:
    """Return `start + amount * (end - start)`; exactly `start` for 0 and exactly `end` for 1."""
    return {name: torch.lerp(start[name], end[name], amount) for name in start}


def subtract(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> Weights:
    """Return `left - right`."""
    return {name: left[name] - right[name] for name in left}


def _mean(values: Sequence[Tensor]) -> Tensor:
    stacked = torch.stack(list(values))
    if not stacked.is_floating_point():
        return stacked.amax(0)
    return values[0] + (stacked - values[0]).mean(0)  # of equal values, exactly that value: a plain mean drifts
