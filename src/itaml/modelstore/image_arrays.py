"""Images given in Python, one after another: paths, PIL images, numpy arrays and tensors, of any size."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from itaml.data.decoding import MAX_PIXELS, to_rgb
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.pillow_warnings import no_pillow_warnings
from itaml.errors import DataError

CHANNELS = (1, 3)
FORMS = "numpy arrays are (n, height, width) or (n, height, width, channels), tensors (n, channels, height, width)"


def check_images(images: Any) -> None:
    """Refuse what is no image and no sequence of images, before it is taken apart.

    Raises:
        DataError: it is a mapping or a set, which have no order, or has no elements at all.
    """
    if isinstance(images, Mapping | Set | memoryview) or not (is_stack(images) or isinstance(images, Iterable)):
        raise DataError(f"images are paths, PIL images, arrays or tensors, not {type(images).__name__}")


def is_stack(images: Any) -> bool:
    """Whether something is many images in one array or tensor, not a sequence of images."""
    return isinstance(images, Tensor) or (hasattr(images, "__array__") and not isinstance(images, Image.Image))


def stack_pixels(images: Any) -> Tensor:
    """Return many images in one array or tensor as (n, c, h, w) of uint8 or float32.

    Raises:
        DataError: they are of another form or type.
    """
    if isinstance(images, Tensor):
        pixels = _dense(images)
        if pixels.dim() == 3 and pixels.shape[0] not in CHANNELS:
            pixels = pixels[:, None]
    else:
        try:
            array = _native(_unmasked(images))
        except (ValueError, TypeError) as error:  # of an `__array__` that returns none
            raise DataError(f"images are not an array: {' '.join(str(error).split())[:200]}") from error
        if array.ndim == 3 and array.shape[-1] in CHANNELS:
            raise DataError(f"an array of shape {array.shape} may be one image or many; give one image in a list")
        array = array[..., None] if array.ndim == 3 else array
        pixels = _from_numpy(array, axes=(0, 3, 1, 2)) if array.ndim == 4 else torch.empty(array.shape)
    if pixels.dim() == 3:
        raise DataError(f"a tensor of shape {tuple(pixels.shape)} may be one image or many; give one image in a list")
    if pixels.dim() != 4 or pixels.shape[1] not in CHANNELS:
        raise DataError(f"images have 1 or 3 channels: {FORMS}, not {tuple(images.shape)}")
    return _checked(pixels)


def item_pixels(image: Any) -> Tensor | str:
    """Return one image as (1, c, h, w) of uint8 or float32, or its path.

    Raises:
        DataError: it is not an image.
    """
    if isinstance(image, str | os.PathLike):
        return os.fsdecode(image)
    if isinstance(image, Image.Image):
        return _checked(_from_pil(image))
    if isinstance(image, Tensor):
        image = _dense(image)
        pixels = image if image.dim() == 3 else image[None] if image.dim() == 2 else torch.empty(0)
    else:
        pixels = _item_array(image)
    if pixels.dim() != 3 or pixels.shape[0] not in CHANNELS:
        raise DataError(
            "an image in a list is a path, a PIL image, a numpy array (height, width[, channels]) or a tensor "
            f"([channels,] height, width) with 1 or 3 channels, not {type(image).__name__} of shape "
            f"{tuple(getattr(image, 'shape', ()))}"
        )
    return _checked(pixels[None])


def _item_array(image: Any) -> Tensor:
    """Return one image (h, w[, c]) as (c, h, w), an empty tensor if it is something else."""
    try:
        array = _unmasked(image)
    except ValueError:  # nested lists of different lengths
        return torch.empty(0)
    if array.dtype.kind in "OUS" or array.ndim not in (2, 3):
        return torch.empty(0)
    return _from_numpy(_native(array if array.ndim == 3 else array[..., None]), axes=(2, 0, 1))


def is_ragged(images: Any) -> bool:
    """Whether an array is a sequence of paths or of images of different sizes."""
    return isinstance(images, np.ndarray) and images.dtype.kind in "OU"


def resized(pixels: Tensor, height: int, width: int, fitting: Fitting = PLAIN) -> Tensor:
    """Scale the centre of images (n, c, h, w) to height x width, as `data.decoding` does with files."""
    if tuple(pixels.shape[2:]) == (height, width) and fitting.crop == 1:
        return pixels
    return torch.stack([_scale(image, (width, height), fitting) for image in pixels])


def _scale(image: Tensor, size: tuple[int, int], fitting: Fitting) -> Tensor:
    if image.dtype == torch.uint8 and len(image) == 3:
        planes = [Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())]
    else:
        planes = [Image.fromarray(plane.contiguous().numpy()) for plane in image]
    done = [torch.from_numpy(np.array(fitting.resample(plane, size))) for plane in planes]
    return done[0].permute(2, 0, 1).contiguous() if done[0].dim() == 3 else torch.stack(done)


def _native(array: Any) -> Any:
    """Return an array of numbers that torch takes: in this machine's byte order, uint8 or float32.

    Raises:
        DataError: it does not hold numbers, or whole numbers outside 0..255.
    """
    kind = array.dtype.kind
    if kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(np.float32, copy=False)
    if kind in "iu":
        if array.dtype.itemsize > 1 or kind == "i":
            low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
            if low < 0 or high > 255:
                raise DataError(f"whole numbers as pixels are from 0 to 255, but these go from {low} to {high}")
        return array.astype(np.uint8, copy=False)
    raise DataError(f"pixels are whole numbers from 0 to 255 or floats, not {array.dtype}")


def _unmasked(image: Any) -> Any:
    if isinstance(image, np.ma.MaskedArray):
        raise DataError("an array with a mask has no pixels where it is masked; fill them first, such as by .filled(0)")
    return np.asarray(image)


def _dense(image: Tensor) -> Tensor:
    if image.layout != torch.strided or image.is_nested or image.is_quantized or image.device.type == "meta":
        raise DataError("a tensor of images is dense, with values, and neither quantized, nested nor sparse")
    return image


def _from_numpy(array: Any, *, axes: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(np.transpose(array, axes)).copy())


def _from_pil(image: Image.Image) -> Tensor:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"an image of {width} x {height} pixels has more than the limit of {MAX_PIXELS}")
    try:
        with no_pillow_warnings():
            turned = to_rgb(ImageOps.exif_transpose(image))
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"a PIL image cannot be read: {error}") from error
    return torch.from_numpy(np.array(turned)).permute(2, 0, 1)[None]


def _checked(pixels: Tensor) -> Tensor:
    if 0 in pixels.shape[1:]:
        raise DataError(f"an image of {pixels.shape[-1]} x {pixels.shape[-2]} pixels has nothing to learn from or name")
    pixels = pixels.detach().cpu()
    if pixels.is_floating_point():
        pixels = pixels.float()
        if not bool(torch.isfinite(pixels).all()):
            raise DataError("images of floats must not hold NaN or infinity")
    elif pixels.dtype != torch.uint8:
        pixels = torch.from_numpy(_native(pixels.resolve_conj().numpy()).copy())
    return pixels.contiguous()
