"""TrivialAugment (Müller and Hutter, ICCV 2021) on whole batches: one random operation of a random strength per image.

Differences from the paper: operations are computed on tensors, geometric ones by bilinear sampling. Their ranges are
those of AutoAugment (Cubuk et al., CVPR 2019), because the wide ones suit longer training than ours.

Values are floats between 0 and 255. Python loops over operations, never over images.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from itaml.data.augmentations import Draws

Operation = Callable[[Tensor, Tensor], Tensor]  # images (k, c, h, w), strengths between -1 and 1 (k,)

LARGEST_ROTATION = math.radians(30)
LARGEST_SHEAR = 0.3
LARGEST_SHIFT = 10 / 32  # of the side
LARGEST_FACTOR = 0.9  # colours are multiplied by 1 - 0.9 to 1 + 0.9
FEWEST_BITS = 4


def trivial_augment(images: Tensor, draws: Draws) -> Tensor:
    """Change each image by one operation, chosen at random from `OPERATIONS`, of a random strength."""
    chosen = draws.integers(len(OPERATIONS))[0].to(images.device)
    strengths = (2 * draws.uniform() - 1).to(images.device)
    in_bytes = images.dtype == torch.uint8
    values = images.float() if in_bytes else images * 255
    for number, operation in enumerate(OPERATIONS.values()):
        rows = (chosen == number).nonzero().flatten()
        if len(rows):
            values[rows] = operation(values[rows], strengths[rows])
    return values.round_().clamp_(0, 255).to(torch.uint8) if in_bytes else values / 255


def identity(images: Tensor, strengths: Tensor) -> Tensor:
    """Return the images as they are."""
    return images


def auto_contrast(images: Tensor, strengths: Tensor) -> Tensor:
    """Stretch each channel to the full range."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) * 255 / (high - low).clamp_min(1e-6), images)


def equalize(images: Tensor, strengths: Tensor) -> Tensor:
    """Make the values of each channel about equally frequent, by the channel's cumulative histogram."""
    k, c, h, w = images.shape
    values = images.round().clamp(0, 255).long().flatten(2).flatten(0, 1)  # (k c, h w)
    counts = torch.zeros(k * c, 256, device=images.device).scatter_add_(1, values, torch.ones_like(values).float())
    lowest = counts.gather(1, values.amin(1, keepdim=True))  # pixels with the smallest value
    ranks = (counts.cumsum(1).gather(1, values) - lowest) * 255 / (h * w - lowest).clamp_min(1)
    several = lowest < h * w  # a channel of one value stays as it is
    return torch.where(several, ranks, values.float()).view(k, c, h, w)


def solarize(images: Tensor, strengths: Tensor) -> Tensor:
    """Invert the values above a threshold; stronger: a lower threshold."""
    threshold = 255 * (1 - strengths.abs())[:, None, None, None]
    return torch.where(images > threshold, 255 - images, images)


def posterize(images: Tensor, strengths: Tensor) -> Tensor:
    """Keep the upper bits of each value; stronger: fewer."""
    bits = 8 - (strengths.abs() * (8 - FEWEST_BITS)).round()
    step = 2 ** (8 - bits)[:, None, None, None]
    return (images / step).floor() * step


def saturation(images: Tensor, strengths: Tensor) -> Tensor:
    """Move colours away from their grey value, or towards it."""
    return _blend(_grey(images), images, strengths)


def contrast(images: Tensor, strengths: Tensor) -> Tensor:
    """Move values away from the image's mean grey value, or towards it."""
    return _blend(_grey(images).mean((1, 2, 3), keepdim=True), images, strengths)


def brightness_factor(images: Tensor, strengths: Tensor) -> Tensor:
    """Multiply values."""
    return _blend(torch.zeros_like(images), images, strengths)


def sharpness(images: Tensor, strengths: Tensor) -> Tensor:
    """Move values away from those of a blurred image, or towards them."""
    channels = images.shape[1]
    kernel = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]], device=images.device).expand(channels, 1, 3, 3) / 13
    blurred = F.conv2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=channels)
    return _blend(blurred, images, strengths)


def _blend(start: Tensor, images: Tensor, strengths: Tensor) -> Tensor:
    factor = (1 + LARGEST_FACTOR * strengths)[:, None, None, None]
    return (start + factor * (images - start)).clamp(0, 255)


def _grey(images: Tensor) -> Tensor:
    """Return the grey values (k, 1, h, w): weights of ITU-R 601 for three channels, the mean for others."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)[:, None, None]
    return (images * weights).sum(1, keepdim=True)


def _affine(images: Tensor, matrices: Tensor) -> Tensor:
    """Sample images (k, c, h, w) at affinely moved positions (k, 2, 3); outside is black."""
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _matrices(strengths: Tensor, **entries: Tensor) -> Tensor:
    """Return identity matrices (k, 2, 3) with some entries replaced, named `a` to `f` row by row."""
    matrices = torch.tensor([[1.0, 0, 0], [0, 1, 0]], device=strengths.device).repeat(len(strengths), 1, 1)
    for name, value in entries.items():
        matrices.view(-1, 6)[:, "abcdef".index(name)] = value
    return matrices


def rotate(images: Tensor, strengths: Tensor) -> Tensor:
    """Turn images around their centre."""
    angle = strengths * LARGEST_ROTATION
    return _affine(images, _matrices(strengths, a=angle.cos(), b=-angle.sin(), d=angle.sin(), e=angle.cos()))


def shear_x(images: Tensor, strengths: Tensor) -> Tensor:
    """Shift rows in proportion to their distance from the middle."""
    return _affine(images, _matrices(strengths, b=strengths * LARGEST_SHEAR))


def shear_y(images: Tensor, strengths: Tensor) -> Tensor:
    """Shift columns in proportion to their distance from the middle."""
    return _affine(images, _matrices(strengths, d=strengths * LARGEST_SHEAR))


def shift_x(images: Tensor, strengths: Tensor) -> Tensor:
    """Shift images horizontally."""
    return _affine(images, _matrices(strengths, c=2 * strengths * LARGEST_SHIFT))


def shift_y(images: Tensor, strengths: Tensor) -> Tensor:
    """Shift images vertically."""
    return _affine(images, _matrices(strengths, f=2 * strengths * LARGEST_SHIFT))


OPERATIONS: dict[str, Operation] = {
    "identity": identity,
    "auto-contrast": auto_contrast,
    "equalize": equalize,
    "solarize": solarize,
    "posterize": posterize,
    "saturation": saturation,
    "contrast": contrast,
    "brightness": brightness_factor,
    "sharpness": sharpness,
    "rotate": rotate,
    "shear-x": shear_x,
    "shear-y": shear_y,
    "shift-x": shift_x,
    "shift-y": shift_y,
}
