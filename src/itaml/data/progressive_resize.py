"""Small images at first: a task's early epochs on shrunk images cost a fraction of the time of full ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

STEP = 4  # sides are multiples of it, as far as the full side is


def side_at_progress(progress: float, *, full: int, start: float, until: float) -> int:
    """Return the side of images after a share `progress` of a task's epochs.

    It grows from `start * full` to `full` at progress `until`, slowly at first (by the third power, so that most epochs
    are cheap), in steps of a few pixels.
    """
    if progress >= until:
        return full
    share = start + (1 - start) * (progress / until) ** 3
    return min(full, max(STEP, STEP * round(share * full / STEP)))


def downscale(images: Tensor, *, height: int, width: int) -> Tensor:
    """Return images (n, c, h, w) at a smaller size, each pixel the mean of those it covers; floats between 0 and 1."""
    if images.shape[2:] == (height, width):
        return images
    values = images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images
    return F.interpolate(values, size=(height, width), mode="area")
