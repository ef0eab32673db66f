"""Mean optimizer states of inner loops, in one process and over the processes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from itaml import distributed, params

States = dict[str, dict[str, Any]]  # parameter -> optimizer state: tensors, or plain values that all loops share


def mean_state(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the states that some loops left of one parameter; counters take their largest value."""
    tensors = [{key: value for key, value in state.items() if isinstance(value, Tensor)} for state in states]
    return {**states[0], **params.mean(tensors)}


def mean_over_processes(means: States, loops: Mapping[str, int], base: States | None = None) -> States:
    """Return the means over the loops of all processes; every process gets the states of every parameter.

    Args:
        means: of this process's loops.
        loops: how many loops of this process each mean is over.
        base: values that are the same in all processes, from which some of the means differ: what is equal to the base
            in all loops stays so to the bit.
    """
    if distributed.size() == 1:
        return means
    # A process without loops does not know what a state is made of, so that all tell each other first.
    outlines = distributed.gather_objects({name: (loops[name], _outline(state)) for name, state in means.items()})
    counts: dict[str, int] = {}
    likes: States = {}
    for outline in outlines:
        for name, (count, state) in outline.items():
            counts[name] = counts.get(name, 0) + count
            likes.setdefault(name, state)
    states: States = {}
    flat: dict[tuple[str, str], Tensor] = {}
    for name, state in likes.items():
        share = loops.get(name, 0) / counts[name]
        for key, like in state.items():
            if isinstance(like, _Like):
                own = means[name][key] if name in means else None
                flat[name, key] = _part(key, own, like, share, (base or {}).get(name, {}).get(key))
    found = distributed.total(flat)
    for name, state in likes.items():
        start = (base or {}).get(name, {})
        states[name] = {
            key: _whole(found[name, key], like, start.get(key)) if isinstance(like, _Like) else like
            for key, like in state.items()
        }
    return states


class _Like(tuple[torch.Size, torch.dtype, str]):
    """Shape, type and device of a tensor."""


def _outline(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _Like((value.shape, value.dtype, value.device.type)) if isinstance(value, Tensor) else value
        for key, value in state.items()
    }


def _part(key: str, own: Tensor | None, like: _Like, share: float, base: Tensor | None) -> Tensor:
    """Return what this process adds to a mean; counters as integers, of which the largest counts."""
    shape, dtype, device = like
    counter = key == "step" or not dtype.is_floating_point
    if own is None:
        return torch.zeros(shape, dtype=torch.int64 if counter else dtype, device=device)
    if counter:
        return own.long()
    return share * (own if base is None else own - base)


def _whole(total: Tensor, like: _Like, base: Tensor | None) -> Tensor:
    if base is None or not total.is_floating_point():
        return total.to(like[1])
    return base + total
