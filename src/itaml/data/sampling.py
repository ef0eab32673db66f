"""In which order an epoch walks through the training samples."""

from __future__ import annotations

import torch
from torch import Tensor


def union_order(count: int, *, generator: torch.Generator) -> Tensor:
    """Return every sample once, in random order: mini-batches are random draws from the union (the paper)."""
    return torch.randperm(count, generator=generator)


def balanced_order(groups: Tensor, *, generator: torch.Generator) -> Tensor:
    """Return as many draws as there are samples, in which all groups take turns.

    Small groups come round again, reshuffled each time; large ones are seen in part, another part each epoch.

    Args:
        groups: the group of each sample (n,), such as its task.
        generator: draws the order.
    """
    names = groups.unique()
    turns = -(-len(groups) // len(names))
    drawn = []
    for name in names:
        members = (groups == name).nonzero().flatten()
        rounds = [members[torch.randperm(len(members), generator=generator)] for _ in range(-(-turns // len(members)))]
        drawn.append(torch.cat(rounds)[:turns])
    return torch.stack(drawn, dim=1).flatten()[: len(groups)]
