"""Images as small data URIs, for pages."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image
from torch import Tensor

SIDE = 96  # pixels; shown at two thirds of it, so that sharp screens get more
QUALITY = 75


def to_image(pixels: Tensor) -> Image.Image:
    """Return an image (1 or 3, h, w); floats of any range are shown from their darkest to their lightest value."""
    values = pixels.float()
    if pixels.is_floating_point():
        low, high = values.min(), values.max()
        values = (values - low) / (high - low).clamp_min(1e-12) * 255
    return Image.fromarray(values.expand(3, -1, -1).permute(1, 2, 0).numpy().round().astype(np.uint8))


def thumbnail(pixels: Tensor) -> str:
    """Return an image (c, h, w) as a data URI; a small one keeps its pixels as they are."""
    image, out = to_image(pixels), io.BytesIO()
    small = max(image.size) <= SIDE
    if not small:
        image.thumbnail((SIDE, SIDE))
    image.save(out, format="WEBP", quality=QUALITY, lossless=small)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()
