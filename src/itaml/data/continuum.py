"""Continua: test samples that share one unknown task, p at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from itaml.errors import SettingsError


def continuum_ids(tasks: Tensor, p: int, *, generator: torch.Generator) -> Tensor:
    """Assign samples to continua of `p` samples of one task each, at random.

    The last continuum of a task holds what is left, so every sample is in exactly one.

    Args:
        tasks: true task of each sample (n,).
        p: samples per continuum.
        generator: decides which samples of a task are together.

    Returns:
        The number of each sample's continuum (n,), counting from 0 without gaps.

    Raises:
        SettingsError: p is less than 1.
    """
    if p < 1:
        raise SettingsError(f"p must be >= 1 (got {p})")
    ids = torch.empty(len(tasks), dtype=torch.int64)
    start = 0
    for task in tasks.unique().tolist():
        members = (tasks == task).nonzero().flatten()
        shuffle = torch.randperm(len(members), generator=generator)
        ids[members[shuffle]] = start + torch.arange(len(members)) // p
        start += -(-len(members) // p)
    return ids
