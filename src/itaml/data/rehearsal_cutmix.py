"""Rehearsal CutMix: a patch of an exemplar is pasted into a new image, and its label counts by the patch's area.

CutMix is by Yun et al. (ICCV 2019), its use with exemplars by Ferdinand et al. (FECIL, arXiv 2405.08038, 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.augmentations import Draws


@dataclass(frozen=True, eq=False)
class Patches:
    """Which image each patch of a mini-batch is from."""

    sources: Tensor  # (n,) position of the image that the patch is from; the image's own where there is no patch
    shares: Tensor  # (n,) share of the area that the patch covers; 0 where there is none


def paste_exemplars(images: Tensor, new: Tensor, draws: Draws, *, probability: float) -> tuple[Tensor, Patches | None]:
    """Paste a patch of a random exemplar into each new image with a probability.

    The patch has the same place in both images. Its area is uniformly distributed before it is cut at the border.

    Args:
        images: the mini-batch (n, c, h, w); it is not changed.
        new: which images are new (n,); the others are exemplars.
        draws: random numbers for the mini-batch.
        probability: of a patch.

    Returns:
        The images, and where their patches are from; None if there are no exemplars or no new images.
    """
    picked, area, drawn = draws.uniform(), draws.uniform(), draws.uniform()
    centre = draws.uniform(), draws.uniform()
    exemplars = (~new).nonzero().flatten()
    if not len(exemplars) or not bool(new.any()):
        return images, None
    own = torch.arange(len(images))
    pasted = new & (drawn < probability)
    sources = torch.where(pasted, exemplars[(picked * len(exemplars)).long()], own)
    sides = [
        _inside(length, middle, area.sqrt()) for length, middle in zip(images.shape[2:], centre, strict=True)
    ]  # (n, h) and (n, w)
    patch = sides[0][:, :, None] & sides[1][:, None, :] & pasted[:, None, None]  # (n, h, w)
    mixed = torch.where(patch[:, None].to(images.device), images[sources.to(images.device)], images)
    return mixed, Patches(sources, patch.float().mean((1, 2)))


def _inside(length: int, middle: Tensor, share: Tensor) -> Tensor:
    """Return which pixels of a side lie within a stretch around `middle`, both as shares of the side (n, length)."""
    pixels = (torch.arange(length) + 0.5) / length
    return (pixels - middle[:, None]).abs() < share[:, None] / 2
