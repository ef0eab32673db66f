"""One learner at a time: a lock file that says who holds it.

The operating system holds the lock (`flock`), so it ends with the process that took it, however that ends; the file's
text is for people, and for file systems that share files between machines but not locks. The file stays when the lock
is released, because two processes could otherwise each lock their own; it is empty while nobody holds it.

The package `filelock` is not used: its lock file has no text that says who holds it, and it locks a file with a second
name (a hard link to a precious file) like any other. Its versions 3.13.1 and 3.20.0 also truncate that file before they
hold the lock; 4.2.10 does not. Here the file is opened without following links, must be a regular file with one name,
and is written to only by the process that holds the lock.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from itaml.errors import ItamlError, UnsafeFileError
from itaml.storage import parse_json, read_regular

logger = logging.getLogger(__name__)

LONGEST = 4096  # bytes of the text
ATTEMPTS = 10  # to open a lock file that others remove with their empty model folder
SHOWN = 60  # characters of each value that is shown
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class LockedError(ItamlError):
    """Another process is changing the model."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock inside the block (see `acquire` for errors)."""
    handle = acquire(path)
    try:
        yield
    finally:
        release(handle)


def acquire(path: Path) -> int:
    """Take the lock; return a handle for `release`.

    Raises:
        LockedError: somebody else holds it; the message says who.
        UnsafeFileError: the lock file is a link, has a second name, or is not a regular file.
        OSError: it cannot be opened or written.
    """
    for _ in range(ATTEMPTS):
        handle = _open(path)
        try:
            if not _try(handle):
                raise LockedError(
                    f"{path.parent} is being changed by {_describe(_holder(path))}; wait for it and try again"
                )
            if os.fstat(handle).st_nlink == 0:  # removed between opening and locking
                os.close(handle)
                continue
            _check_holder(path)
            _write(handle, json.dumps(_me()).encode())
        except BaseException:
            with suppress(OSError):
                os.close(handle)
            raise
        return handle
    raise LockedError(f"{path.parent} is being changed by another process; wait for it and try again")


def release(handle: int) -> None:
    """Let the lock go; an error of the disk does not matter, because closing the file is enough."""
    with suppress(OSError):
        _write(handle, b"")
    with suppress(OSError):
        os.close(handle)


def _open(path: Path) -> int:
    if path.is_symlink():
        raise UnsafeFileError(f"{path} is a symbolic link, which is not followed; delete it and try again")
    if path.exists() and not path.is_file():
        raise UnsafeFileError(f"{path} is not a regular file; delete it and try again")
    handle = os.open(path, _FLAGS, 0o644)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeFileError(f"{path} is not a regular file; delete it and try again")
        if found.st_nlink > 1:
            raise UnsafeFileError(f"{path} has a second name (a hard link); delete it and try again")
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_holder(path: Path) -> None:
    """Look at who is written in a lock that the system gave us: a dead process of this machine, or another machine."""
    holder = _holder(path)
    if not holder:
        return
    if holder.get("host") != socket.gethostname():
        raise LockedError(
            f"{path.parent} is being changed by {_describe(holder)}, on another machine; if that process is gone, "
            f"delete {path} and try again"
        )
    logger.info("took over the lock of %s, which ended without giving it back", _describe(holder))


def _me() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _holder(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_regular(path, limit=LONGEST))
    except (OSError, ValueError, UnsafeFileError):
        return {}
    return value if isinstance(value, dict) else {}


def _describe(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    pid, host, since = (ascii(str(holder.get(key)))[1:-1][:SHOWN] for key in ("pid", "host", "since"))
    return f"process {pid} on {host} since {since}"


def _write(handle: int, text: bytes) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, text)


if sys.platform == "win32":

    def _try(handle: int) -> bool:
        import msvcrt  # noqa: PLC0415 (on Windows alone)

        os.lseek(handle, 1 << 20, os.SEEK_SET)  # beyond the text, which others must be able to read
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:

    def _try(handle: int) -> bool:
        import fcntl  # noqa: PLC0415 (on Unix alone)

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
