"""Sufficient statistics of features: counts, class sums and the second moment.

LDA, ridge regression and the nearest class mean need nothing else, so a classifier can learn a class, merge with
another one, or forget an image exactly, without the images it has seen before.

| symbol | meaning |
|---|---|
| n_c, N | images of class c, images in all |
| s_c | sum of the features of class c; its mean is m_c = s_c / n_c |
| S | sum of f f^T over all images |

Everything is in double precision and the classes are kept sorted. Features on a grid (`models.features.round_to_grid`)
are integers times a power of two, and their sums and products are exact in double precision as long as they stay below
2^53 grid units; the statistics are then the same to the bit in every order of arrival, and subtracting an image undoes
adding it. Other features give the same values up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import torch
from torch import Tensor

from itaml import distributed
from itaml.errors import DataError

BLOCK = 160  # features whose products are computed together
ROUGH = 0.01  # least variance within classes for single precision, relative to the mean square of the features


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """What is known of the features seen so far; see the module for the symbols."""

    classes: tuple[int, ...]  # sorted
    counts: Tensor  # (classes,) int64: n_c
    sums: Tensor  # (classes, features) float64: s_c
    moment: Tensor  # (features, features) float64: S

    @property
    def features(self) -> int:
        """Length of a feature vector."""
        return self.moment.shape[0]

    @property
    def total(self) -> int:
        """Number of images."""
        return int(self.counts.sum())

    @cached_property
    def means(self) -> Tensor:
        """Mean of each class (classes, features)."""
        return self.sums / self.counts[:, None]

    def row(self, label: int) -> int:
        """Return the row of a class.

        Raises:
            DataError: the class is not known.
        """
        if label not in self.classes:
            raise DataError(f"class {label} has no statistics; known are {len(self.classes)} classes")
        return self.classes.index(label)


def empty_statistics(features: int) -> FeatureStatistics:
    """Return the statistics of no image."""
    return FeatureStatistics(
        (),
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0, features, dtype=torch.float64),
        torch.zeros(features, features, dtype=torch.float64),
    )


def collect(features: Tensor, labels: Tensor) -> FeatureStatistics:
    """Return the statistics of images.

    Args:
        features: (n, features).
        labels: class ids (n,).

    Raises:
        DataError: the shapes do not agree, or a feature is not finite.
    """
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise DataError(f"features {tuple(features.shape)} and labels {tuple(labels.shape)} do not belong together")
    if not bool(features.isfinite().all()):
        raise DataError("a feature is not a finite number")
    values = features.double()
    classes, rows, counts = labels.unique(sorted=True, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(classes), values.shape[1], dtype=torch.float64).index_add(0, rows, values)
    return FeatureStatistics(tuple(classes.tolist()), counts, sums, values.T @ values)


def merge(first: FeatureStatistics, second: FeatureStatistics) -> FeatureStatistics:
    """Return the statistics of both sets of images together; a class in both adds up.

    Raises:
        DataError: the features have different lengths.
    """
    return _combine(first, second, sign=1)


def merge_all(known: FeatureStatistics, arriving: Iterable[FeatureStatistics]) -> FeatureStatistics:
    """Return what is known together with what arrives, in this process and in all others of the run."""
    own = reduce(merge, arriving, known if distributed.is_main() else empty_statistics(known.features))
    return reduce(merge, distributed.gather_objects(own))


def subtract(whole: FeatureStatistics, part: FeatureStatistics) -> FeatureStatistics:
    """Return the statistics without some of the images; a class without images left is dropped.

    Raises:
        DataError: `part` has a class or more images of a class than `whole` has.
    """
    for label, count in zip(part.classes, part.counts.tolist(), strict=True):
        known = int(whole.counts[whole.row(label)])
        if count > known:
            raise DataError(f"cannot remove {count} images of class {label}: only {known} were learned")
    return _combine(whole, part, sign=-1)


def remove_class(statistics: FeatureStatistics, label: int, features: Tensor | None = None) -> FeatureStatistics:
    """Return the statistics without a class.

    Args:
        statistics: what is known.
        label: the class.
        features: all features of the class, if they were kept: the result is then exact. Without them the mean and
            the count are removed exactly, and the pooled within-class covariance is left as it is.

    Raises:
        DataError: the class is not known, or the features are not all of its images.
    """
    row = statistics.row(label)
    count = int(statistics.counts[row])
    if features is not None:
        if len(features) != count:
            raise DataError(f"class {label} has {count} images, not {len(features)}")
        return subtract(statistics, collect(features, torch.full((count,), label)))
    keep = [index for index in range(len(statistics.classes)) if index != row]
    scatter = within_scatter(statistics)
    left = statistics.total - count - len(keep)
    freedom = statistics.total - len(statistics.classes)
    means = statistics.means[keep]
    between = means.T @ statistics.sums[keep]
    moment = between + scatter * (left / freedom if freedom > 0 else 0.0)
    classes = tuple(statistics.classes[index] for index in keep)
    return FeatureStatistics(classes, statistics.counts[keep], statistics.sums[keep], (moment + moment.T) / 2)


def rename_class(statistics: FeatureStatistics, old: int, new: int) -> FeatureStatistics:
    """Return the statistics with class `old` called `new`; if `new` exists, the two become one class, exactly.

    Raises:
        DataError: `old` is not known.
    """
    row = statistics.row(old)
    renamed = [new if index == row else label for index, label in enumerate(statistics.classes)]
    classes = tuple(sorted(set(renamed)))
    rows = torch.tensor([classes.index(label) for label in renamed])
    counts = torch.zeros(len(classes), dtype=torch.int64).index_add(0, rows, statistics.counts)
    sums = torch.zeros(len(classes), statistics.features, dtype=torch.float64).index_add(0, rows, statistics.sums)
    return replace(statistics, classes=classes, counts=counts, sums=sums)


def renumber(statistics: FeatureStatistics, ids: Mapping[int, int]) -> FeatureStatistics:
    """Return the statistics with other class ids."""
    labels = [ids[label] for label in statistics.classes]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    classes = tuple(labels[row] for row in order)
    return replace(statistics, classes=classes, counts=statistics.counts[order], sums=statistics.sums[order])


def within_scatter(statistics: FeatureStatistics, *, fast: bool = False) -> Tensor:
    """Return S - sum_c n_c m_c m_c^T (features, features), symmetric.

    With many classes the product takes longest of all that a learn computes; only its upper half is computed, and with
    `fast` in single precision, unless the images of a class are so much alike that rounding would show.
    """
    means, sums, scatter = statistics.means, statistics.sums, statistics.moment.clone()
    if fast and float(scatter.trace() - (means * sums).sum()) > ROUGH * float(scatter.trace()):
        means, sums = means.float(), sums.float()
    for start in range(0, statistics.features, BLOCK):
        own, right = slice(start, start + BLOCK), slice(start + BLOCK, None)
        square = scatter[own, own] - means[:, own].T @ sums[:, own]
        scatter[own, own] = (square + square.T) / 2
        scatter[own, right] -= means[:, own].T @ sums[:, right]
        scatter[right, own] = scatter[own, right].T
    return scatter


def _combine(first: FeatureStatistics, second: FeatureStatistics, *, sign: int) -> FeatureStatistics:
    if first.features != second.features:
        raise DataError(f"features of length {first.features} and {second.features} cannot be combined")
    if sign == 1 and (not first.classes or not second.classes or first.classes[-1] < second.classes[0]):  # new classes
        parts = zip((first.counts, first.sums), (second.counts, second.sums), strict=True)
        counts, sums = (torch.cat(pair) for pair in parts)
        return FeatureStatistics((*first.classes, *second.classes), counts, sums, first.moment + second.moment)
    classes = sorted({*first.classes, *second.classes})
    counts = torch.zeros(len(classes), dtype=torch.int64)
    sums = torch.zeros(len(classes), first.features, dtype=torch.float64)
    for part, factor in ((first, 1), (second, sign)):
        rows = _rows(classes, part.classes)
        counts[rows] += factor * part.counts
        sums[rows] += factor * part.sums
    keep = counts > 0
    kept = tuple(label for label, stays in zip(classes, keep.tolist(), strict=True) if stays)
    return FeatureStatistics(kept, counts[keep], sums[keep], first.moment + sign * second.moment)


def _rows(classes: Sequence[int], wanted: Sequence[int]) -> Tensor:
    position = {label: row for row, label in enumerate(classes)}
    return torch.tensor([position[label] for label in wanted], dtype=torch.int64)
