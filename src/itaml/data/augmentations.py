"""Random changes of training images, a whole batch at a time, on tensors (n, c, h, w) of any type.

Nothing loops over samples in Python, and every random number comes from the generator given. In a run over several
processes the numbers are drawn for the whole mini-batch in every process, which uses those of its share.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.data.strong_augmentation import trivial_augment
from itaml.errors import UnknownNameError
from itaml.registry import unknown
from itaml.shares import Share

Augment = Callable[[Tensor, "Draws"], Tensor]


class Draws:
    """Random numbers for the images of a mini-batch.

    Args:
        generator: draws them.
        count: images of the whole mini-batch.
        share: which of them are here; None is all.
    """

    def __init__(self, generator: torch.Generator, count: int, share: Share | None = None) -> None:
        self.generator, self.count, self.share = generator, count, share

    def integers(self, end: int, *, rows: int = 1) -> Tensor:
        """Draw whole numbers from 0 to end - 1 (rows, images here)."""
        return self.here(torch.randint(0, end, (rows, self.count), generator=self.generator))

    def uniform(self) -> Tensor:
        """Draw numbers from 0 to 1 (images here,)."""
        return self.here(torch.rand(self.count, generator=self.generator))

    def here(self, drawn: Tensor) -> Tensor:
        """Return, of values for the whole mini-batch (..., n), those of the images here."""
        return drawn if self.share is None else drawn[..., self.share.own]


def crop(images: Tensor, draws: Draws, *, pad: int) -> Tensor:
    """Shift each image by up to `pad` pixels in both directions, filling with zeros."""
    n, _, height, width = images.shape
    padded = F.pad(images, (pad, pad, pad, pad))
    top, left = draws.integers(2 * pad + 1, rows=2).to(images.device)
    rows = top[:, None] + torch.arange(height, device=images.device)  # (n, h)
    columns = left[:, None] + torch.arange(width, device=images.device)  # (n, w)
    batch = torch.arange(n, device=images.device)
    return padded[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(images: Tensor, draws: Draws) -> Tensor:
    """Flip each image horizontally with probability one half."""
    flipped = (draws.uniform() < 0.5).to(images.device)
    return torch.where(flipped[:, None, None, None], images.flip(3), images)


def cutout(images: Tensor, draws: Draws, *, size: int) -> Tensor:
    """Blank a square of `size` pixels around a random point of each image (DeVries and Taylor, 2017)."""
    _, _, height, width = images.shape
    row, column = draws.integers(height).T, draws.integers(width).T  # (n, 1)
    inside_rows = ((torch.arange(height) - row).abs() < size / 2)[:, None, :, None]
    inside_columns = ((torch.arange(width) - column).abs() < size / 2)[:, None, None, :]
    return images.masked_fill((inside_rows & inside_columns).to(images.device), 0)


def brightness(images: Tensor, draws: Draws, *, limit: float) -> Tensor:
    """Multiply each image's values by a factor between 1 - most and 1 + most."""
    factor = 1 + limit * (2 * draws.uniform() - 1)
    changed = images.float() * factor[:, None, None, None].to(images.device)
    return changed.clamp(0, 255).to(torch.uint8) if images.dtype == torch.uint8 else changed


def _chain(*steps: Augment) -> Augment:
    def apply(images: Tensor, draws: Draws) -> Tensor:
        for step in steps:
            images = step(images, draws)
        return images

    return apply


AUGMENTATIONS: dict[str, Augment] = {
    "none": _chain(),
    "shift": _chain(lambda x, g: crop(x, g, pad=1)),
    "shift2": _chain(lambda x, g: crop(x, g, pad=2)),
    "crop": _chain(lambda x, g: crop(x, g, pad=4)),
    "crop-flip": _chain(lambda x, g: crop(x, g, pad=4), flip),
    "crop-flip-bright": _chain(lambda x, g: crop(x, g, pad=4), flip, lambda x, g: brightness(x, g, limit=0.25)),
    "crop-flip-cutout": _chain(lambda x, g: crop(x, g, pad=4), flip, lambda x, g: cutout(x, g, size=8)),
    "flip": _chain(flip),
    "trivial": _chain(trivial_augment),
    "trivial-cutout": _chain(trivial_augment, lambda x, g: cutout(x, g, size=x.shape[2] // 2)),
}


def augmentation(name: str) -> Augment:
    """Return the augmentation called `name`.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in AUGMENTATIONS:
        raise UnknownNameError(unknown("augmentation", name, AUGMENTATIONS))
    return AUGMENTATIONS[name]
