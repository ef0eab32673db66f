"""Images as lists of WebP files: what a memory counted in bytes keeps (see `byte_memory`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.data.images import PixelStore, Shape
from itaml.data.webp import decode_webp, encode_webp
from itaml.errors import SettingsError

EFFORT = 4  # WebP's own default; 6 makes files 1 % smaller in 1.5 times the time


def encoded(images: Tensor) -> list[bytes]:
    """Return images (n, c, h, w) as WebP files.

    Raises:
        SettingsError: they are not uint8 images in grey or colour.
    """
    if len(images) and (images.dtype != torch.uint8 or images.shape[1] not in (1, 3)):
        raise SettingsError("memory_bytes keeps WebP files of uint8 images in grey or RGB: set memory for these images")
    return [encode_webp(image, lossless=False, effort=EFFORT) for image in images]


def decoded(files: Sequence[bytes], shape: Shape) -> Tensor:
    """Return the images of files (n, c, h, w); see `decode_webp` for errors."""
    images = [decode_webp(file, shape, source="an exemplar") for file in files]
    return torch.stack(images) if images else torch.empty(0, *shape, dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class CompressedPixels:
    """Pixels of another store as they come back from WebP files."""

    source: PixelStore

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return self.source.shape

    def __len__(self) -> int:
        return len(self.source)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels of `rows` that can be read, and which ones they are (see `PixelStore`)."""
        pixels, readable = self.source.read(rows)
        return decoded(encoded(pixels), self.shape), readable


def saved_files(state: Mapping[str, object]) -> dict[str, list[bytes]]:
    """Return the files of each class in a saved memory.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    found = {}
    for key, tensor in state["files"].items():  # type: ignore[attr-defined]
        data, start, files = tensor.numpy().tobytes(), 0, []
        for size in state["sizes"][key].tolist():  # type: ignore[index]
            files.append(data[start : start + size])
            start += size
        if start != len(data) or not all(files):
            raise ValueError("the sizes of files do not fit")
        found[key] = files
    return found
