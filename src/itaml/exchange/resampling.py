"""Pillow's bilinear resize as products of matrices, so that it can be part of an exported network.

`data.fitting` scales the centre of an image with a triangle filter, first each row and then each column, and
rounds to whole numbers after each. Here that is one matrix for the rows and one for the columns, which the network
makes of the size of its input.

| symbol    | meaning                                                                  |
|-----------|--------------------------------------------------------------------------|
| num / den | pixels of the image for each pixel of the result                         |
| margin    | what is cut from both ends of a line, in units of 1 / den                |
| weights   | of the pixels of a line in a pixel of the result, in units of 1 / (2 den) |

Pillow's weights are whole numbers of 2^-22. A product of such weights with pixels needs 30 bits, so the weights are
split into numbers of 16 and of 6 bits. All sums of products are then whole numbers below 2^24, which single precision
has exactly: of the first, because they add up to 2^16 for each pixel of the result, and of the second in lines of up
to 500 times the wanted side. So the result has Pillow's pixels, to the bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS, LOW_BITS = 22, 6  # of Pillow's weights, and of the second part of them


def resample(pixels: Tensor, height: int, width: int, *, whole: bool) -> Tensor:
    """Return the centre of float images (n, c, h, w), scaled to (n, c, height, width).

    Args:
        pixels: the images.
        height: of the result.
        width: of the result.
        whole: the pixels are whole numbers from 0 to 255, and Pillow rounds to such after each of the two steps.
    """
    down, across = pixels[0, 0, :, 0], pixels[0, 0, 0]
    rows, columns = _count(down), _count(across)
    wide = columns * height > rows * width  # the rows fill the result; the columns are cut on both sides
    num, den = torch.where(wide, rows, columns), torch.where(wide, height, width)
    horizontal = _weights(across, columns, width, num, den)  # (width, w)
    vertical = _weights(down, rows, height, num, den)  # (height, h)
    if not whole:
        scaled: Tensor = (vertical / 2**BITS).float() @ (pixels @ (horizontal / 2**BITS).float().T)
        return scaled
    scaled = _joined(*(pixels @ part.T for part in _parts(horizontal)))
    return _joined(*(part @ scaled for part in _parts(vertical)))


def _count(line: Tensor) -> Tensor:
    """Return the length of a line of pixels as a tensor, which an exported network computes for every input."""
    return torch.ones_like(line, dtype=torch.int64).sum()


def _weights(line: Tensor, count: Tensor, size: int, num: Tensor, den: Tensor) -> Tensor:
    """Return the weight of each pixel of a line in each pixel of the result, in units of 2^-22 (size, count)."""
    pixel = torch.ones_like(line, dtype=torch.int64).cumsum(0) - 1
    margin = count * den - size * num
    centre = margin + (2 * torch.arange(size) + 1) * num
    weights = torch.clamp_min(2 * torch.maximum(num, den) - ((2 * pixel + 1) * den - centre[:, None]).abs(), 0)
    total = weights.sum(1, keepdim=True)
    units: Tensor = (weights * 2 ** (BITS + 1) + total) // (2 * total)
    return units


def _parts(weights: Tensor) -> tuple[Tensor, Tensor]:
    high = weights // 2**LOW_BITS
    return high.float(), (weights - high * 2**LOW_BITS).float()


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """Return (high 2^6 + low) / 2^22, rounded to a whole number from 0 to 255."""
    carry = torch.floor(low / 2**LOW_BITS)  # what is left of `low` cannot change the rounding
    half = 2.0 ** (BITS - LOW_BITS - 1)
    return torch.floor((high + carry + half) / 2 ** (BITS - LOW_BITS)).clamp(0.0, 255.0)
