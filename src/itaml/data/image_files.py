"""Images in files, decoded when they are asked for: an index of a million of them costs tens of megabytes.

A `FileIndex` keeps the names of all files in one buffer of bytes with an offset per file, beside the number of its
folder; nothing of it is a Python object per file. `FilePixels` is the pixel store over it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from itaml.data.decoding import MAX_PIXELS, BadImageError, Pixels, decode, extensions
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.images import Shape
from itaml.hardware.machine import cores

logger = logging.getLogger(__name__)

LISTED = 1000  # bad images that are kept by name; the rest are only counted
LOGGED = 20
CHUNK = 8  # images a thread takes at once: small ones decode in the time that handing out work costs


@dataclass(frozen=True, eq=False)
class FileIndex:
    """Files in folders, held compactly. Row i is the file `path(i)`."""

    folders: tuple[str, ...]
    folder_of: npt.NDArray[np.int32]  # (n,)
    names: bytes  # all names, one after another
    ends: npt.NDArray[np.int64]  # (n + 1,) name i is names[ends[i]:ends[i + 1]]

    @classmethod
    def build(cls, listings: Iterable[tuple[str, Sequence[str]]]) -> FileIndex:
        """Make an index of (folder, names in it) pairs, taken one at a time."""
        folders: list[str] = []
        counts: list[int] = []
        buffer = bytearray()
        lengths: list[npt.NDArray[np.int32]] = []
        for folder, names in listings:
            encoded = [os.fsencode(name) for name in names]
            folders.append(folder)
            counts.append(len(encoded))
            lengths.append(np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded)))
            buffer += b"".join(encoded)
        ends = np.zeros(sum(counts) + 1, dtype=np.int64)
        if lengths:
            np.cumsum(np.concatenate(lengths), out=ends[1:])
        return cls(tuple(folders), np.repeat(np.arange(len(folders), dtype=np.int32), counts), bytes(buffer), ends)

    def __len__(self) -> int:
        return len(self.folder_of)

    def name(self, row: int) -> str:
        """Return the name of a file inside its folder."""
        return os.fsdecode(self.names[self.ends[row] : self.ends[row + 1]])

    def path(self, row: int) -> str:
        """Return the path of a file."""
        return os.path.join(self.folders[self.folder_of[row]], self.name(row))

    def image(self, row: int, size: int, max_pixels: int, fitting: Fitting = PLAIN) -> Pixels:
        """Decode a file (see `decode` for errors)."""
        return decode(self.path(row), size=size, fitting=fitting, max_pixels=max_pixels)


class ImageIndex(Protocol):
    """Where `FilePixels` gets its images: files of this machine, files at URLs, members of archives."""

    def __len__(self) -> int: ...

    def image(self, row: int, size: int, max_pixels: int, fitting: Fitting = PLAIN) -> Pixels:
        """Return the pixels of a row (size, size, 3), or raise BadImageError."""


@dataclass(eq=False)
class BadImages:
    """Images that could not be read: how many, and the first `LISTED` of them with the reason."""

    entries: list[tuple[str, str]] = field(default_factory=list)  # (path, reason)
    count: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, path: str, reason: str) -> None:
        """Note one."""
        with self._lock:
            self.count += 1
            if self.count <= LISTED:
                self.entries.append((path, reason))
            if self.count <= LOGGED:
                logger.warning("skipped %s: %s", path, reason)


@dataclass(frozen=True, eq=False)
class FilePixels:
    """A pixel store of image files, decoded in parallel at one size.

    With `on_bad="skip"` an unreadable image is left out and noted in `bad`, once; with `"fail"` it is a DataError.
    """

    index: ImageIndex
    size: int
    on_bad: Literal["skip", "fail"] = "skip"
    workers: int | None = None  # threads; as many as this process may use cores if None
    max_pixels: int = MAX_PIXELS
    fitting: Fitting = PLAIN
    bad: BadImages = field(default_factory=BadImages)
    _bad_rows: dict[int, object] = field(default_factory=dict, init=False)

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return 3, self.size, self.size

    def __len__(self) -> int:
        return len(self.index)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Decode the images of `rows`; return them and which positions of `rows` they are.

        Raises:
            DataError: an image is unreadable and `on_bad` is "fail".
        """
        wanted: list[int] = rows.tolist()
        buffer = np.empty((len(wanted), self.size, self.size, 3), dtype=np.uint8)
        starts = range(0, len(wanted), CHUNK)
        workers = self.workers or cores()

        def chunk(start: int) -> list[int]:
            return [at for at in range(start, min(start + CHUNK, len(wanted))) if self._into(buffer, at, wanted[at])]

        parallel = workers > 1 and len(starts) > 1
        parts = _pool(workers, os.getpid()).map(chunk, starts) if parallel else map(chunk, starts)
        kept = torch.tensor([at for part in parts for at in part], dtype=torch.int64)
        pixels = torch.from_numpy(buffer)
        pixels = pixels if len(kept) == len(wanted) else pixels[kept]
        return pixels.permute(0, 3, 1, 2).contiguous(), kept

    def _into(self, buffer: npt.NDArray[np.uint8], at: int, row: int) -> bool:
        if row in self._bad_rows:
            return False
        try:
            buffer[at] = self.index.image(row, self.size, self.max_pixels, self.fitting)
        except BadImageError as error:
            if self.on_bad == "fail":
                raise
            mine = object()
            if self._bad_rows.setdefault(row, mine) is mine:  # one thread wins, so an image is noted once
                self.bad.add(error.path, error.reason)
            return False
        return True


def list_images(folder: str) -> list[str]:
    """Return the images below a folder as sorted names relative to it; hidden ones and linked folders are left out.

    Raises:
        OSError: the folder cannot be read.
    """
    known, found, pending = extensions(), [], [""]
    while pending:
        inner = pending.pop()
        with os.scandir(os.path.join(folder, inner)) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(os.path.join(inner, entry.name))
                elif entry.name.lower().endswith(known):
                    found.append(os.path.join(inner, entry.name))
    return sorted(found)


@lru_cache(maxsize=4)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """One pool for all stores; a forked process makes its own, because threads do not survive a fork."""
    return ThreadPoolExecutor(workers, thread_name_prefix=f"itaml-decode-{process}")
