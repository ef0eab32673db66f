"""Reading files with checks, and sentences for what a disk refuses."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from itaml.errors import CheckpointError, ItamlError, UnsafeFileError
from itaml.modelstore.manifest import FileSum
from itaml.safe_files import reason_of
from itaml.storage import STATE_LIMIT, open_regular, read_regular

RECORD_LIMIT = 64 << 20  # bytes of a JSON file; a record of 10,000 learns takes 10 MB
MEND = "`itaml rollback` returns to the last good version"
ADVICE = {
    errno.ENOSPC: "make room and try again",
    errno.EROFS: "copy the model to a place that can be written to",
    errno.EACCES: "ask for the right to write there, or copy the model",
    errno.EPERM: "ask for the right to write there, or copy the model",
}


class UnreadableError(CheckpointError):
    """The disk did not let a file be read; it may be good."""

    @classmethod
    def of(cls, path: Path, error: OSError) -> UnreadableError:
        """Return the sentence for an error of the disk."""
        return cls(f"{path} cannot be read: {reason_of(error)}")


def read_bytes(path: Path) -> bytes:
    """Read a JSON file of a model.

    Raises:
        CheckpointError: it is missing, unreadable, too large, or not a regular file.
    """
    try:
        return read_regular(path, limit=RECORD_LIMIT)
    except (OSError, UnsafeFileError) as error:
        raise _refused(path, error) from error


def read_checked(path: Path, expected: FileSum) -> bytes:
    """Read a file whose size and checksum are known, once.

    Raises:
        CheckpointError: it is missing, unreadable, truncated, changed, or not a regular file.
    """
    data = read_expected(path, expected.size)
    if file_sum(data) != expected:
        raise CheckpointError(f"{path} is damaged: its checksum does not fit; {MEND}")
    return data


def read_expected(path: Path, size: int) -> bytes:
    """Read a file whose size is known; the caller compares its content.

    Raises:
        CheckpointError: it is missing, unreadable, of another size, or not a regular file.
    """
    try:
        with open_regular(path, limit=STATE_LIMIT) as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise CheckpointError(f"{path} is damaged: {found} bytes instead of {size}; {MEND}")
            return file.read(size)
    except (OSError, UnsafeFileError) as error:
        raise _refused(path, error) from error


def file_sum(data: bytes | memoryview) -> FileSum:
    """Return the size and checksum of a file's bytes."""
    return FileSum(size=len(data), sha256=hashlib.sha256(data).hexdigest())


def remove(path: Path) -> None:
    """Remove a file, a link or a folder as far as the disk permits; what stays is removed by the next change."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def disk_error(path: Path, error: OSError, outcome: str) -> ItamlError:
    """Return what the disk refused as a sentence; `outcome` says what the model is now."""
    advice = ADVICE.get(error.errno or 0)
    return ItamlError(f"cannot write to {path}: {reason_of(error)}; {outcome}" + (f"; {advice}" if advice else ""))


def _refused(path: Path, error: OSError | UnsafeFileError) -> CheckpointError:
    if isinstance(error, UnsafeFileError):
        return CheckpointError(f"{error}; {MEND}")
    if isinstance(error, FileNotFoundError):
        return CheckpointError(f"{path} is missing; {MEND}")
    return UnreadableError.of(path, error)
