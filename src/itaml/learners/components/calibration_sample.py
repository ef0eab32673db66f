"""Which exemplars LDA is calibrated on: a bounded number, so that one more class costs the same with few and many.

Shrinkage, temperature and threshold are a handful of numbers, for which some hundred images do. As many of each class
are taken, in the order in which they are given; of more classes than images, one of each of some classes. Which classes
follows from a hash of their features, so that the choice does not depend on the order in which they were learned.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

MOST, LEAST = 500, 256  # images
PAIRS = 100_000  # of images and classes that are compared, between these limits


def calibration_rows(features: Tensor, labels: Tensor) -> Tensor:
    """Return the rows of the images to calibrate on (m,), sorted.

    Args:
        features: of exemplars (n, d).
        labels: their classes (n,); those of a class in the order of preference.
    """
    classes, columns = labels.unique(return_inverse=True)
    budget = min(MOST, max(LEAST, PAIRS // max(len(classes), 1)))
    if len(labels) <= budget:
        return torch.arange(len(labels))
    rank = _rank_in_class(columns, len(classes))
    if len(classes) <= budget:
        return (rank < budget // len(classes)).nonzero().flatten()
    first = (rank == 0).nonzero().flatten()
    hashes = [hashlib.blake2b(row.numpy().tobytes(), digest_size=8).digest() for row in features[first]]
    chosen = sorted(range(len(first)), key=hashes.__getitem__)[:budget]
    return first[torch.tensor(chosen)].sort().values


def _rank_in_class(columns: Tensor, classes: int) -> Tensor:
    """Return the position of each image among those of its class (n,)."""
    order = columns.argsort(stable=True)
    counts = torch.bincount(columns, minlength=classes)
    starts = counts.cumsum(0) - counts
    rank = torch.empty_like(columns)
    rank[order] = torch.arange(len(columns)) - starts[columns[order]]
    return rank
