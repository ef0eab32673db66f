"""Unlabelled images that are neither training data nor exemplars, for methods that consolidate models on them.

| source             | images                                                                               |
|--------------------|--------------------------------------------------------------------------------------|
| `strokes`          | drawn here: one to three random smooth pen strokes of random width, in grey on black |
| a benchmark's name | the training images of its data set, without their labels                            |
| `folder:PATH`      | the images in a folder of class folders, without their labels                        |

Strokes need no download and hold no image, and no shape, of any data set. They suit drawings such as digits, whose
local structure they share; for photographs, name a data set of photographs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.data.benchmarks import LoadOptions, benchmark
from itaml.data.images import ImageSet, Shape

STROKES = "strokes"
POINTS = 24  # on a stroke
CHUNK = 250  # images drawn at once


def open_auxiliary(source: str, *, shape: Shape) -> ImageSet | None:
    """Return the images of a source, unread where they are in files; None for those that are drawn.

    Raises:
        UnknownNameError: there is no such source.
        DataError: its files are missing or broken.
    """
    if source == STROKES:
        return None
    return benchmark(source).load(LoadOptions(image_size=max(shape[1:]))).train


def read_auxiliary(images: ImageSet | None, *, shape: Shape, count: int, generator: torch.Generator) -> Tensor:
    """Return `count` images (count, *shape) in uint8, at random; fewer if the source has fewer."""
    if images is None:
        return torch.cat(
            [draw_strokes(len(part), shape=shape, generator=generator) for part in torch.arange(count).split(CHUNK)]
        )
    pixels = images.batch(torch.randperm(len(images), generator=generator)[:count])[0]
    return _fitted(pixels, shape)


def draw_strokes(count: int, *, shape: Shape, generator: torch.Generator) -> Tensor:
    """Draw images (count, *shape) of one to three strokes each.

    A stroke is a cubic Bezier curve with random control points. Half of those after the first start where the stroke
    before them ended. The ink falls off over one pixel at its edge.
    """
    channels, height, width = shape
    ends = torch.rand(count, 3, 4, 2, generator=generator) * 0.8 + 0.1  # strokes, control points, (y, x)
    joined = torch.rand(count, 2, generator=generator) < 0.5
    for stroke in (1, 2):
        goes_on = joined[:, stroke - 1, None]
        ends[:, stroke, 0] = torch.where(goes_on, ends[:, stroke - 1, 3], ends[:, stroke, 0])
    t = torch.linspace(0, 1, POINTS)
    basis = torch.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])  # (4, points)
    curves = torch.einsum("nscd,cp->nspd", ends, basis)  # (n, strokes, points, 2)
    drawn = torch.arange(3) < torch.randint(1, 4, (count, 1), generator=generator)  # (n, strokes)
    curves = torch.where(drawn[:, :, None, None], curves, torch.full_like(curves, -9.0)).flatten(1, 2)
    scale = torch.tensor([height, width], dtype=torch.float32)
    grid = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"), -1) + 0.5
    distances = torch.cdist(grid.reshape(1, -1, 2), curves * scale).amin(2)  # (n, pixels)
    radius = (0.03 + 0.04 * torch.rand(count, 1, generator=generator)) * max(height, width)
    ink = (radius + 0.5 - distances).clamp(0, 1) * (0.7 + 0.3 * torch.rand(count, 1, generator=generator))
    images = (255 * ink).round().to(torch.uint8).reshape(count, 1, height, width)
    return images.expand(count, channels, height, width).clone()


def _fitted(pixels: Tensor, shape: Shape) -> Tensor:
    """Return images in another size and number of channels."""
    values = pixels.float() if pixels.dtype == torch.uint8 else 255 * pixels
    if values.shape[1] != shape[0]:
        values = values.mean(1, keepdim=True).expand(-1, shape[0], -1, -1)
    if tuple(values.shape[2:]) != shape[1:]:
        values = F.interpolate(values, size=shape[1:], mode="bilinear", antialias=True)
    return values.round().clamp(0, 255).to(torch.uint8)
