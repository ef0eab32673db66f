"""Images as WebP files: what the model store and a memory counted in bytes keep."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from itaml.data.images import Shape
from itaml.data.pillow_warnings import no_pillow_warnings
from itaml.errors import CheckpointError

QUALITY = 90


def encode_webp(image: Tensor, *, lossless: bool, effort: int) -> bytes:
    """Return an image (1 or 3, h, w) of uint8 as a WebP file.

    Args:
        image: the pixels.
        lossless: keep them exactly; else the quality is `QUALITY`.
        effort: 0 (fast) to 6 (small files), what WebP calls its method.
    """
    array = image.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "WEBP", quality=QUALITY, method=effort, lossless=lossless, exact=True)
    return buffer.getvalue()


def decode_webp(data: bytes, shape: Shape, *, source: str) -> Tensor:
    """Return the image (c, h, w) of uint8 that a file holds; `source` names it in messages.

    Raises:
        CheckpointError: it is not an image of that shape.
    """
    channels, height, width = shape
    try:
        with no_pillow_warnings(), Image.open(io.BytesIO(data), formats=("WEBP",)) as image:
            if image.size != (width, height):
                raise CheckpointError(
                    f"{source} is an image of {image.width} x {image.height} pixels, not of the model"
                )
            pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except CheckpointError:
        raise
    except Exception as error:  # on hostile bytes Pillow raises nearly anything
        raise CheckpointError(f"{source} is not an image ({error})") from error
    return pixels[:channels].contiguous()
