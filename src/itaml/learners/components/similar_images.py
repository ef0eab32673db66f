"""Find training images that were taken on the same occasion, so that they are left out together.

Photos of one class are often taken in one go: the same object, background and light. Leaving one of them out says
little about a photo of another day, because its neighbours are still there. Two images of a class are similar if their
differences from the class mean point in the same direction. Centring makes the cosine of unrelated images of a class of
n negative, -1 / (n - 1) on average, which is corrected.

Some similarity is there in every set, so images are grouped only where the cosines of images of one class spread much
more than those of images of different classes, which cannot be of one occasion. The ratio of the two spreads was 1.4 to
1.9 for training photos of sets of unrelated photos, and 2.3 to 3.4 for photos taken in series and for crops of the same
photos.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

SERIES = 2.0  # ratio of the spreads from which on images are grouped
SIMILAR = 0.15  # cosine from which on two images are similar
SAMPLE = 256, 512  # images that are compared with each other for the spread between classes


def similar_images(
    residuals: Tensor, columns: Tensor, counts: Tensor, *, classes: Sequence[int] | None = None
) -> Tensor:
    """Return for each image the rows that are left out with it (n, k): itself first, then similar ones, then -1.

    At most half of the other images of a class are left out.

    Args:
        residuals: differences from the class mean (n, d).
        columns: class of each image (n,), from 0.
        counts: images of each class (classes,), of which `residuals` may hold a part.
        classes: those to look at; images of others are said to be similar to none. All if not given.
    """
    alone = torch.arange(len(residuals))[:, None]
    unit = F.normalize(residuals.float(), dim=1)
    blocks = _within_classes(unit, columns, counts, set(columns.tolist()) if classes is None else set(classes))
    if not blocks or not _in_series(unit, columns, blocks):
        return alone
    most = max(min(len(rows) - 1, (int(counts[column]) - 1) // 2) for column, (rows, _) in blocks.items())
    found = torch.cat([alone, torch.full((len(alone), most), -1)], 1)
    for column, (rows, cosines) in blocks.items():
        limit = min(len(rows) - 1, (int(counts[column]) - 1) // 2)
        if limit > 0:
            nearest = cosines.topk(limit, 1)
            found[rows, 1 : limit + 1] = torch.where(nearest.values > SIMILAR, rows[nearest.indices], -1)
    return found[:, : int((found >= 0).sum(1).max())]


def with_mates(groups: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of some images and then of all that are left out with them (k,), and their groups among these.

    Args:
        groups: what `similar_images` returned.
        rows: the images (m,).
    """
    chosen = groups[rows]
    inside = torch.zeros(len(groups), dtype=torch.bool)
    inside[chosen[chosen >= 0]] = True
    inside[rows] = False
    taken = torch.cat([rows, inside.nonzero().flatten()])
    position = torch.full((len(groups) + 1,), -1)  # the last one is that of no image, -1
    position[taken] = torch.arange(len(taken))
    return taken, position[chosen]


def _within_classes(
    unit: Tensor, columns: Tensor, counts: Tensor, looked: set[int]
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return for each class to look at its rows and their corrected cosines, -inf on the diagonal."""
    order = columns.argsort(stable=True)  # once: to look for the rows of each class takes longer for many classes
    there = torch.bincount(columns, minlength=len(counts)).tolist()
    parts = zip(order.split(there), unit[order].split(there), counts.tolist(), strict=True)
    blocks = {}
    for column, (rows, part, count) in enumerate(parts):
        if column in looked and len(rows):
            cosines = (part @ part.T).mul_((count - 1) / count).add_(1 / count)
            blocks[column] = rows, cosines.fill_diagonal_(-torch.inf)
    return blocks


def _in_series(unit: Tensor, columns: Tensor, blocks: dict[int, tuple[Tensor, Tensor]]) -> bool:
    same = torch.cat([cosines[cosines.isfinite()] for _, cosines in blocks.values()])
    some, others = (torch.linspace(0, len(unit) - 1, min(count, len(unit))).long() for count in SAMPLE)
    different = (unit[some] @ unit[others].T)[columns[some][:, None] != columns[others]]
    if not len(same) or not len(different):
        return False
    return float(same.square().mean()) > SERIES**2 * float(different.square().mean())
