"""Reading files with checks, and putting what a disk refuses into words."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from itaml.errors import CheckpointError, ItamlError
from itaml.library.record import FileSum


def read_bytes(path: Path) -> bytes:
    """Read a file of a model.

    Raises:
        CheckpointError: it is missing or unreadable.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; `itaml rollback` returns to the last good version") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {_reason(error)}") from error


def file_sum(path: Path) -> FileSum:
    """Return the size and checksum of a file (see `read_bytes` for errors)."""
    data = read_bytes(path)
    return FileSum(size=len(data), sha256=hashlib.sha256(data).hexdigest())


def check_file(path: Path, expected: FileSum) -> None:
    """Refuse a file that is not what was written.

    Raises:
        CheckpointError: it is missing, truncated or changed.
    """
    found = file_sum(path)
    if found.size != expected.size:
        raise CheckpointError(
            f"{path} is damaged: {found.size} bytes instead of {expected.size}; "
            "`itaml rollback` returns to the last good version"
        )
    if found.sha256 != expected.sha256:
        raise CheckpointError(
            f"{path} is damaged: its checksum does not fit; `itaml rollback` returns to the last good version"
        )


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def disk_words(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into a sentence.

    Raises:
        ItamlError: the disk is full, read-only or broken.
    """
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "make room and try again",
            errno.EROFS: "copy the model to a place that can be written to",
            errno.EACCES: "ask for the right to write there, or copy the model",
            errno.EPERM: "ask for the right to write there, or copy the model",
        }.get(error.errno or 0, "nothing was changed")
        raise ItamlError(f"cannot write to {path}: {_reason(error)}; {advice}") from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
