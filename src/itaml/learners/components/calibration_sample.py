"""Which exemplars LDA is calibrated on: a bounded number, so that one more class costs the same with few and many.

Shrinkage, temperature and threshold are a handful of numbers, for which some hundred images do: on training images that
were held out of four sets (three draws each), the expected calibration error was 4.8 % with 256 images, 4.9 % with 500
and 5.1 % with all, and 4.0 %, 4.1 % and 4.0 % of known images were refused. As many of each class are taken, in the
order in which they are given; of more classes than images, one of each of some classes. Which classes follows from a
hash of their features, so that the choice does not depend on the order in which they were learned.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

MOST = 256  # images
HASHED = 64  # features of an image, which distinguish it from all others


def calibration_rows(features: Tensor, labels: Tensor) -> Tensor:
    """Return the rows of the images to calibrate on (m,), sorted.

    Args:
        features: of exemplars (n, d).
        labels: their classes (n,); those of a class in the order of preference.
    """
    classes, columns = labels.unique(return_inverse=True)
    if len(labels) <= MOST:
        return torch.arange(len(labels))
    rank = _rank_in_class(columns, len(classes))
    if len(classes) <= MOST:
        return (rank < MOST // len(classes)).nonzero().flatten()
    first = (rank == 0).nonzero().flatten()
    some = features[first, :HASHED].contiguous().numpy()
    hashes = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in some]
    chosen = sorted(range(len(first)), key=hashes.__getitem__)[:MOST]
    return first[torch.tensor(chosen)].sort().values


def _rank_in_class(columns: Tensor, classes: int) -> Tensor:
    """Return the position of each image among those of its class (n,)."""
    order = columns.argsort(stable=True)
    counts = torch.bincount(columns, minlength=classes)
    starts = counts.cumsum(0) - counts
    rank = torch.empty_like(columns)
    rank[order] = torch.arange(len(columns)) - starts[columns[order]]
    return rank
