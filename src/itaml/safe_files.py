"""Read and write files without trusting what is there: regular files only, complete or absent, with checksums in JSON.

Files are opened by `open_regular`: links, named pipes, devices and files above a size limit are refused before they are
read. Text from files is parsed by `parse_json`, which has one exception for everything that is wrong with it. A file is
written under a temporary name, synced and renamed; the temporary file is locked while its writer lives, so that `sweep`
can tell what an interrupted writer left behind. Importing this module imports no torch.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from itaml.errors import CheckpointError, UnsafeFileError

JSON_LIMIT = 256 << 20  # bytes of a configuration, a result or an event log
PARTIAL = ".partial"  # ending of temporary names, which begin with a dot
CHECKSUM = "checksum"
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path | str, *, limit: int, within: Path | None = None) -> BinaryIO:
    """Open a regular file for reading, without waiting and without following a link.

    Args:
        path: the file.
        limit: largest size in bytes that is accepted.
        within: a folder inside of which the file may be a link, as long as it leads to a file in the same folder; with
            None no link is accepted.

    Raises:
        UnsafeFileError: it is a link, a named pipe, a device or a folder, or it is larger than `limit`.
        OSError: it is missing or cannot be read.
    """
    path = Path(path)
    if within is not None:
        path = _resolved_within(path, within)
    if path.is_symlink():  # says so where O_NOFOLLOW does not exist, and in better words where it does
        raise UnsafeFileError(f"{path} is a symbolic link, which is not followed; put the file itself there")
    handle = os.open(path, _OPEN_FLAGS)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeFileError(f"{path} is not a regular file (but {_kind_of(found.st_mode)})")
        if found.st_size > limit:
            raise UnsafeFileError(f"{path} has {found.st_size} bytes, more than the limit of {limit}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path | str, *, limit: int, within: Path | None = None) -> bytes:
    """Return the bytes of a regular file (see `open_regular` for arguments and errors)."""
    with open_regular(path, limit=limit, within=within) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)  # one more, because a file may grow while it is read
    if len(data) > limit:
        raise UnsafeFileError(f"{path} has more than the limit of {limit} bytes")
    return data


def is_impossible_path(error: OSError) -> bool:
    """Say whether no file can be at a path at all: a name is too long, or links lead in a circle."""
    return error.errno in (errno.ENAMETOOLONG, errno.ELOOP)


def reason_of(error: OSError | ValueError) -> str:
    """Return why the file system refused, in a few words."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def parse_json(text: bytes | str) -> Any:
    """Parse JSON from a file that may hold anything.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or holds a number with too many digits.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _resolved_within(path: Path, folder: Path) -> Path:
    resolved = path.resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise UnsafeFileError(f"{path} is a link that leads out of {folder}; put the file itself there")
    return resolved


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that at any moment there is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
    try:
        try:
            _try_lock(handle)
            _write_all(handle, data)
            os.fsync(handle)
            if sys.platform != "win32":  # where an open file cannot be renamed, nor deleted by `sweep`
                Path(temporary).chmod(0o644)
                Path(temporary).replace(path)
        finally:
            os.close(handle)
        if sys.platform == "win32":
            Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def leftover(name: str) -> bool:
    """Return whether a file has a name that only a temporary file of ours has."""
    return name.startswith(".") and name.endswith(PARTIAL)


def sweep(folder: Path) -> None:
    """Delete what interrupted writers left in a folder; files that are being written are left alone."""
    for path in folder.iterdir():
        if leftover(path.name):
            # errors: somebody else was faster, or it is not ours
            with suppress(OSError, UnsafeFileError), open_regular(path, limit=sys.maxsize) as file:
                if _try_lock(file.fileno()):
                    path.unlink()


def _try_lock(handle: int) -> bool:
    """Lock a file for as long as it is open; return whether no other process had it locked."""
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415 (on Unix alone)

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def write_json(path: Path, value: Any, *, checksum: bool = False) -> None:
    """Write a value as JSON for people and programs, atomically; with a checksum of all else as its last field."""
    if checksum:
        value = {**value, CHECKSUM: json_digest(value)}
    write_atomically(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path, *, what: str = "what a run writes") -> dict[str, Any]:
    """Read a JSON object and compare its checksum, which is left out; older files without one are read too.

    Args:
        path: the file.
        what: what it must be, for messages.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    try:
        value = parse_json(read_regular(path, limit=JSON_LIMIT, within=path.parent))
    except UnsafeFileError as error:
        raise CheckpointError(str(error)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"{path} cannot be read, it is damaged or not JSON: {reason[:200]}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is not {what}")
    expected = value.pop(CHECKSUM, None)
    if expected is not None and expected != json_digest(value):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit")
    return value


def json_digest(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object, which does not depend on the order of its keys, nor on spaces."""
    plain = json.loads(json.dumps(value, allow_nan=False))  # keys that are numbers become text, as in the file
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can (Windows cannot)."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
