"""Test-time augmentation: the views of an image over which inference averages scores."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def views(images: Tensor, *, flip: bool = False, shift: int = 0) -> list[Tensor]:
    """Return each image as it is and, as asked, shifted and flipped.

    Args:
        images: samples (n, c, h, w).
        flip: also every view flipped horizontally.
        shift: also shifted by this many pixels to each of the four corners, filled with zeros as by the augmentation
            `crop`; 0 is off.
    """
    found = [images]
    if shift:
        padded, (height, width) = F.pad(images, (shift, shift, shift, shift)), images.shape[2:]
        corners = [(top, left) for top in (0, 2 * shift) for left in (0, 2 * shift)]
        found += [padded[:, :, top : top + height, left : left + width] for top, left in corners]
    return [seen for view in found for seen in ((view, view.flip(3)) if flip else (view,))]


def mean_over_views(
    images: Tensor, outputs: Callable[[Tensor], Tensor], *, flip: bool = False, shift: int = 0
) -> Tensor:
    """Return the outputs of a network for images (n, ...), averaged over their views."""
    first, *others = views(images, flip=flip, shift=shift)
    total = outputs(first)
    for view in others:
        total = total + outputs(view)
    return total / (1 + len(others)) if others else total
