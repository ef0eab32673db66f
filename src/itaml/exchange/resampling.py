"""Pillow's bilinear resize as products of matrices, so that it can be part of an exported network.

`data.fitting` scales the centre of an image with a triangle filter, first each row and then each column, and
rounds to whole numbers after each. An image of six times the wanted side or more is first reduced by a whole factor.
Here that is one matrix for the rows and one for the columns, which the network makes of the size of its input.

| symbol     | meaning                                                                                 |
|------------|-----------------------------------------------------------------------------------------|
| num / den  | pixels of the image for each pixel of the result                                        |
| f          | the factor by which an image is reduced, 1 for most                                     |
| left, right | the part of a line that Pillow reduces                                                  |
| W, S       | weight of a pixel and support of the filter, both in units of 1 / (2 den f)             |

Pillow's weights are whole numbers of 2^-22. A product of such weights with pixels needs 30 bits, so the weights are
split into two numbers of 11 bits, whose products are exact in single precision. The result is Pillow's to the bit for
most images. It differs by one level where an image is reduced first, because Pillow rounds the reduced image too, and
in some that are taller than wide, whose columns newer versions of Pillow scale before their rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

GAP = 3  # as in `data.fitting`
BITS, HALF_BITS = 22, 11  # of Pillow's weights


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
    scaled = _joined(*(pixels @ part.T for part in _halves(horizontal)))
    return _joined(*(part @ scaled for part in _halves(vertical)))


def _count(line: Tensor) -> Tensor:
    """Return the length of a line of pixels as a tensor, which an exported network computes for every input."""
    return torch.ones_like(line, dtype=torch.int64).sum()


def _weights(line: Tensor, count: Tensor, size: int, num: Tensor, den: Tensor) -> Tensor:
    """Return the weight of each pixel of a line in each pixel of the result, in units of 2^-22 (size, count)."""
    f = torch.clamp_min(num // (GAP * den), 1)
    margin = count * den - size * num  # what is cut from both ends, times den
    left = torch.where(f > 1, torch.clamp_min(margin - num, 0) // (2 * den), 0)
    last = (count * den + size * num + num + 2 * den - 1) // (2 * den)
    right = torch.where(f > 1, torch.minimum(count, last), count)
    pixel = torch.ones_like(line, dtype=torch.int64).cumsum(0) - 1 - left
    block = torch.clamp_min(pixel, 0) // f
    centre = margin - 2 * den * left + (2 * torch.arange(size) + 1) * num
    weights = torch.clamp_min(2 * torch.maximum(num, den * f) - ((2 * block + 1) * den * f - centre[:, None]).abs(), 0)
    weights = torch.where((pixel >= 0) & (pixel < right - left), weights, 0)
    length = torch.minimum(f, right - left - block * f).clamp_min(1)  # of a block: the last may be shorter
    total = (weights * f // length).sum(1, keepdim=True) // f
    units: Tensor = (weights * 2 ** (BITS + 1) + total * length) // (2 * total * length)
    return units


def _halves(weights: Tensor) -> tuple[Tensor, Tensor]:
    high = weights // 2**HALF_BITS
    return high.float(), (weights - high * 2**HALF_BITS).float()


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """Return (high 2^11 + low) / 2^22, rounded to a whole number from 0 to 255."""
    carry = torch.floor((low + 2.0 ** (BITS - 1)) / 2**HALF_BITS)
    return torch.floor((high + carry) / 2**HALF_BITS).clamp(0.0, 255.0)
