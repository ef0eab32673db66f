"""`MappedStore`: images in a memory-mapped temporary file, which the system pages in and out as they are used."""

from __future__ import annotations

import math
import os
import tempfile
from contextlib import suppress

import torch
from torch import Tensor

from itaml.data.images import Shape

MAP_ABOVE = 1_000_000_000  # bytes of exemplars from which they are mapped; the folder is that of `tempfile` (TMPDIR)


class MappedStore:
    """Room for images of one shape and type, filled from its beginning; the file is gone with the last reference.

    Args:
        count: images that it has room for.
        shape: shape of an image.
        dtype: type of its pixels.
    """

    def __init__(self, count: int, shape: Shape, dtype: torch.dtype) -> None:
        handle, path = tempfile.mkstemp(prefix="itaml-exemplars-")
        os.close(handle)
        try:
            flat = torch.from_file(path, shared=True, size=count * math.prod(shape), dtype=dtype)
        finally:
            with suppress(OSError):  # Windows deletes no open file
                os.unlink(path)
        self.values = flat.view(count, *shape)
        self._end = 0

    def put(self, images: Tensor) -> Tensor:
        """Copy images (k, c, h, w) behind those that are there; return them as a view of the store."""
        start, self._end = self._end, self._end + len(images)
        view = self.values[start : self._end]
        view.copy_(images)
        return view

    def rows_of(self, view: Tensor) -> Tensor | None:
        """Return which rows of the store a tensor (k, c, h, w) is a view of, None if it is not one."""
        same = view.untyped_storage().data_ptr() == self.values.untyped_storage().data_ptr()
        if not same or not view.is_contiguous():
            return None
        start = view.storage_offset() // math.prod(self.values.shape[1:])
        return torch.arange(start, start + len(view))
