"""Pixels that were decoded once: in memory where they fit, else in a temporary file that is mapped into memory."""

from __future__ import annotations

import logging
import tempfile
from typing import IO

import numpy as np
import torch
from torch import Tensor

IN_MEMORY = 1 << 30  # bytes of pixels

logger = logging.getLogger(__name__)


class PixelBuffer:
    """Collects images of one shape, part by part.

    The temporary file goes when the images are not used any more. If the disk refuses it, the images are not kept, and
    the caller has to decode them again.

    Args:
        size: bytes that are expected in all.
    """

    def __init__(self, size: int) -> None:
        self._in_memory = size <= IN_MEMORY
        self._parts: list[Tensor] = []  # in a file: the first image only
        self._file: IO[bytes] | None = None
        self._count, self._refused = 0, False

    def add(self, pixels: Tensor) -> None:
        """Add images (n, c, h, w)."""
        if self._in_memory:
            self._parts.append(pixels)
        elif len(pixels) and not self._refused:
            try:
                if self._file is None:
                    self._parts = [pixels[:1].clone()]
                    self._file = tempfile.TemporaryFile(prefix="itaml-")  # noqa: SIM115 (closed in `images`)
                self._file.write(pixels.contiguous().numpy().data)
                self._file.flush()  # a full disk is found here, not in the mapping
                self._count += len(pixels)
            except OSError as error:
                logger.warning("images are decoded again, because the temporary file fails: %s", error.strerror)
                self._refused = True

    def images(self) -> Tensor | None:
        """Return all images (n, c, h, w), at least one, None if they could not be kept; then nothing can be added."""
        if self._in_memory:
            return torch.cat(self._parts)
        if self._file is None:
            return None
        with self._file as file:
            if self._refused:
                return None
            first = self._parts[0].numpy()
            shape = (self._count, *first.shape[1:])
            return torch.from_numpy(np.memmap(file, dtype=first.dtype, mode="c", shape=shape))
