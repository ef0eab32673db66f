"""Which images of a class to keep.

Every rule gives an order of preference, so that keeping fewer later means cutting the end off, never choosing again.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

SELECTIONS = ("random", "herding", "first", "content")


def content_keys(pixels: Tensor) -> Tensor:
    """Return a number for each image (n,) that follows from its content alone and is otherwise without a pattern."""
    digests = [hashlib.sha256(image.contiguous().numpy().tobytes()).digest() for image in pixels]
    return torch.tensor([int.from_bytes(digest[:7], "big") for digest in digests], dtype=torch.int64)


def random_order(count: int, *, generator: torch.Generator) -> Tensor:
    """Return a random order (the paper's choice)."""
    return torch.randperm(count, generator=generator)


def herding_order(features: Tensor, *, limit: int) -> Tensor:
    """Return the first `limit` positions so that each prefix's mean is close to the class mean (iCaRL, Algorithm 4).

    Args:
        features: features of one class (n, d); they are scaled to unit length here, as iCaRL does.
        limit: how many positions are wanted.
    """
    features = torch.nn.functional.normalize(features.double(), dim=1)
    target = features.mean(0)
    taken = torch.zeros(len(features), dtype=torch.bool)
    total = torch.zeros_like(target)
    lengths = features.square().sum(1)
    order = []
    for k in range(1, min(limit, len(features)) + 1):
        # |target - (total + f) / k|**2, times k**2 and without what is the same for every f: one product a step
        distance = lengths - 2 * (features @ (k * target - total))
        best = int(distance.masked_fill(taken, float("inf")).argmin())
        taken[best] = True
        total = total + features[best]
        order.append(best)
    return torch.tensor(order, dtype=torch.int64)


def in_turns(parts: list[Tensor]) -> Tensor:
    """Return an order of the images of all parts (n,): the first of each, the second of each, and so on."""
    ranks = torch.cat([torch.arange(len(part)) for part in parts])
    return ranks.argsort(stable=True)
