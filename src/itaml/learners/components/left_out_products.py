r"""Inner products of images and class means under LDA's covariance, as if a group of images had not been learned.

Leaving g images of class c out, with r_i the difference of image i from the class mean m_c and s their sum, changes the
mean to m_c - s / (n_c - g) and the within-class scatter by -Z^T Z, with the rows r_i and s / sqrt(n_c - g) of Z. The
Woodbury formula gives the inverse of the covariance:

    P' = P + P Z^T (I / k - Z P Z^T)^-1 Z P,   k = (1 - a) / (N - C - 1)

with P the inverse of k W_s + l I, W_s the within-class scatter of all images. The ridge l, k and the origin (the mean
of the class means) are kept as they are; otherwise the values are exactly those without the group.

With the whole class left out the images are examples of unknown ones. The origin is then the mean of the other class
means, -m_c / (C - 1) from the old one; the covariance keeps what the class adds to it, except for the group.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

CHUNK = 128  # images that are left out at a time


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of images and class means, relative to the origin (see `itaml.inference.unknown`)."""

    inner: Tensor  # (n, classes)
    squares: Tensor  # (n,)
    mean_squares: Tensor  # (n, classes)


@dataclass(frozen=True, eq=False)
class WhitenedImages:
    """Images and class means, relative to the origin and whitened by the covariance of all images."""

    images: Tensor  # (n, d)
    means: Tensor  # (classes, d)
    columns: Tensor  # (n,): class of each image
    counts: Tensor  # (classes,): images of each class, of which `images` may hold a part
    scale: float  # k

    @property
    def residuals(self) -> Tensor:
        """Differences of the images from their class means (n, d)."""
        return self.images - self.means[self.columns]


def products_left_out(white: WhitenedImages, groups: Tensor, *, classes: bool = True) -> tuple[Products, Products]:
    """Return the products without a group of images each, and without the whole class.

    Args:
        white: the images.
        groups: rows that are left out with each of the first n images (n, g), itself among them; -1 stands for none.
        classes: compute those without the whole class too; else the second result is the first.
    """
    residuals = white.residuals
    parts = [
        _leave_out(white, residuals, rows, groups[rows], classes) for rows in torch.arange(len(groups)).split(CHUNK)
    ]
    known, unknown = (_joined([part[kind] for part in parts]) for kind in (0, 1))
    return known, unknown if classes else known


def products_each_left_out(white: WhitenedImages) -> Products:
    """Return the products without each image alone, those of `products_left_out`, by products of whole matrices.

    P' = P + t u u^T with u = P r, t = k' / (1 - k' r^T u) and k' = k n_c / (n_c - 1), by the formula above with g = 1.
    """
    own = torch.arange(len(white.columns)), white.columns
    inner, gram = white.images @ white.means.T, white.means[white.columns] @ white.means.T
    squares, mean_squares = white.images.square().sum(1), white.means.square().sum(1).repeat(len(inner), 1)
    counts = white.counts.to(inner.dtype)[white.columns]
    others = (counts - 1).clamp_min(1)  # 1 for a class's only image, whose own column is not used
    rr, xr = squares - 2 * inner[own] + mean_squares[own], squares - inner[own]  # r . r and x . r
    mr = inner - gram  # r . m_c (n, classes)
    k = white.scale * counts / others
    t = k / (1 - k * rr).clamp_min(1e-12)  # the matrix stays positive definite; rounding may say otherwise
    mean_squares[own] += rr / others.square() - 2 * mr[own] / others
    inner[own] -= xr / others
    mr[own] -= rr / others
    return Products(inner + (t * xr)[:, None] * mr, squares + t * xr.square(), mean_squares + t[:, None] * mr.square())


def _leave_out(
    white: WhitenedImages, residuals: Tensor, rows: Tensor, groups: Tensor, classes: bool
) -> tuple[Products, Products]:
    x, means, columns = white.images[rows], white.means, white.columns[rows]
    own = torch.arange(len(rows)), columns
    taken = groups >= 0
    r = residuals[groups.clamp_min(0)] * taken[:, :, None]  # (n, g, d)
    total = r.sum(1)
    left = (white.counts[columns] - taken.sum(1)).clamp_min(1).to(x.dtype)[:, None]  # 1 for a class's only image
    z = _changes(r, left)  # (n, g + 1, d), or (n, 1, d)
    update = torch.linalg.inv(torch.eye(z.shape[1], dtype=z.dtype) / max(white.scale, 1e-30) - z @ z.mT)
    plain = Products(x @ means.T, x.square().sum(1), means.square().sum(1).repeat(len(x), 1))
    gram = means[columns] @ means.T
    zx = (z @ x[:, :, None])[:, :, 0]  # (n, g + 1)
    alone = torch.equal(groups, rows[:, None])  # then z is a multiple of x - m_c, of which the products are known
    zm = ((plain.inner - gram) * (1 + 1 / left).sqrt())[:, None] if alone else z @ means.T  # (n, g + 1, classes)
    unknown = _class_left_out(plain, gram, columns, zx, zm, update) if classes else plain
    shift = total / left
    inner, mean_squares, zm = plain.inner.clone(), plain.mean_squares.clone(), zm.clone()
    inner[own] -= (x * shift).sum(1)
    mean_squares[own] = (means[columns] - shift).square().sum(1)
    zm[own[0], :, columns] -= (z @ shift[:, :, None])[:, :, 0]
    return _updated(Products(inner, plain.squares, mean_squares), zx, zm, update), unknown


def _changes(r: Tensor, left: Tensor) -> Tensor:
    """Return Z; of a single image the two rows are multiples of each other, and one row does as well."""
    if r.shape[1] == 1:
        return r * (1 + 1 / left).sqrt()[:, None]
    return torch.cat([r, (r.sum(1) / left.sqrt())[:, None]], 1)


def _class_left_out(plain: Products, gram: Tensor, columns: Tensor, zx: Tensor, zm: Tensor, update: Tensor) -> Products:
    """Return the products relative to the mean of the other class means; `gram` is m_c . m_k (n, classes)."""
    own = torch.arange(len(columns)), columns
    share = 1 / max(gram.shape[1] - 1, 1)
    inner, zc, square = plain.inner[own][:, None], zm[own[0], :, columns], share**2 * gram[own][:, None]
    moved = Products(
        plain.inner + share * (inner + gram) + square,
        plain.squares + (2 * share * inner + square)[:, 0],
        plain.mean_squares + 2 * share * gram + square,
    )
    return _updated(moved, zx + share * zc, zm + share * zc[:, :, None], update)


def _updated(plain: Products, zx: Tensor, zm: Tensor, update: Tensor) -> Products:
    """Return the products under P' from those under P, Z P x (n, g + 1) and Z P m_c (n, g + 1, classes)."""
    turned = update @ zm
    return Products(
        plain.inner + (zx[:, None] @ turned)[:, 0],
        plain.squares + (zx[:, None] @ update @ zx[:, :, None])[:, 0, 0],
        plain.mean_squares + (zm * turned).sum(1),
    )


def _joined(parts: list[Products]) -> Products:
    return Products(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Products)))
