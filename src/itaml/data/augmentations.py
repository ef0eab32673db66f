"""Random changes of training images, a whole batch at a time, on tensors (n, c, h, w) of any type.

Nothing loops over samples in Python, and every random number comes from the generator given.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.errors import UnknownNameError
from itaml.registry import unknown

Augment = Callable[[Tensor, torch.Generator], Tensor]


def crop(images: Tensor, generator: torch.Generator, *, pad: int) -> Tensor:
    """Shift each image by up to `pad` pixels in both directions, filling with zeros."""
    n, _, height, width = images.shape
    padded = F.pad(images, (pad, pad, pad, pad))
    top, left = torch.randint(0, 2 * pad + 1, (2, n), generator=generator).to(images.device)
    rows = top[:, None] + torch.arange(height, device=images.device)  # (n, h)
    columns = left[:, None] + torch.arange(width, device=images.device)  # (n, w)
    batch = torch.arange(n, device=images.device)
    return padded[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip each image horizontally with probability one half."""
    flipped = (torch.rand(len(images), generator=generator) < 0.5).to(images.device)
    return torch.where(flipped[:, None, None, None], images.flip(3), images)


def cutout(images: Tensor, generator: torch.Generator, *, size: int) -> Tensor:
    """Blank a square of `size` pixels around a random point of each image (DeVries and Taylor, 2017)."""
    n, _, height, width = images.shape
    row = torch.randint(0, height, (n, 1), generator=generator)
    column = torch.randint(0, width, (n, 1), generator=generator)
    inside_rows = ((torch.arange(height) - row).abs() < size / 2)[:, None, :, None]
    inside_columns = ((torch.arange(width) - column).abs() < size / 2)[:, None, None, :]
    return images.masked_fill((inside_rows & inside_columns).to(images.device), 0)


def brightness(images: Tensor, generator: torch.Generator, *, limit: float) -> Tensor:
    """Multiply each image's values by a factor between 1 - most and 1 + most."""
    factor = 1 + limit * (2 * torch.rand(len(images), 1, 1, 1, generator=generator) - 1)
    changed = images.float() * factor.to(images.device)
    return changed.clamp(0, 255).to(torch.uint8) if images.dtype == torch.uint8 else changed


def _chain(*steps: Augment) -> Augment:
    def apply(images: Tensor, generator: torch.Generator) -> Tensor:
        for step in steps:
            images = step(images, generator)
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
}


def augmentation(name: str) -> Augment:
    """Return the augmentation called `name`.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in AUGMENTATIONS:
        raise UnknownNameError(unknown("augmentation", name, AUGMENTATIONS))
    return AUGMENTATIONS[name]
