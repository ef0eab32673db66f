"""Open data files without trusting them: regular files only, and never more bytes than their size or header allows.

A link is followed, because data sets are often linked into place; what it leads to must be a regular file.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from itaml.errors import DataError, UnsafeFileError
from itaml.storage import open_regular

MAX_TEXT = 64_000_000  # bytes of a list of names


class Readable(Protocol):
    """What can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes."""


@contextmanager
def data_file(path: Path, *, limit: int) -> Iterator[BinaryIO]:
    """Open a data file inside the block, and say in one sentence what is wrong with it.

    Args:
        path: the file, or a link to it.
        limit: largest size in bytes that is accepted.

    Raises:
        DataError: it is missing, not a regular file, too large, or reading it fails inside the block.
    """
    try:
        with open_regular(os.path.realpath(path), limit=limit) as file:
            yield file
    except UnsafeFileError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"cannot read {path}: {reason[0].lower() + reason[1:] if reason else 'it is broken'}"
        ) from error


def read_data(path: Path, *, limit: int) -> bytes:
    """Return the bytes of a data file (see `data_file` for errors)."""
    with data_file(path, limit=limit) as file:
        return LimitedReader(file, limit, path).read(limit + 1)


def read_names(path: Path) -> list[str]:
    """Return the lines of a text file; bytes that are not text are replaced (see `data_file` for errors)."""
    return read_data(path, limit=MAX_TEXT).decode("utf-8", "replace").splitlines()


class LimitedReader:
    """Passes bytes on until an allowance is used up, which bounds what a small compressed file can become."""

    def __init__(self, file: Readable, allowance: int, path: Path) -> None:
        self._file, self._left, self._path = file, allowance, path

    def allow(self, more: int) -> None:
        """Raise the allowance."""
        self._left += more

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes.

        Raises:
            DataError: the allowance is used up.
        """
        data = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise DataError(f"cannot read {self._path}: it holds more data than a file of this kind may")
        return data


def unzipped(file: BinaryIO, path: Path) -> BinaryIO:
    """Return a file of which the bytes are decompressed while they are read, if its name ends in .gz."""
    return gzip.GzipFile(fileobj=file, mode="rb") if path.suffix == ".gz" else file  # type: ignore[return-value]
