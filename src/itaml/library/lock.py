"""One learner at a time: a lock file that says who holds it.

The operating system holds the lock (`flock`), so it ends with the process that took it, however that ends; the file's
text is for people, and for file systems that share files between machines but not locks. The file is never deleted,
because two processes could then each lock their own; it is empty while nobody holds it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from itaml.errors import ItamlError

logger = logging.getLogger(__name__)


class LockedError(ItamlError):
    """Another process is changing the model."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock inside the block.

    Raises:
        LockedError: somebody else holds it; the message says who.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try(handle):
            raise LockedError(f"{path.parent} is being changed by {_words(_holder(path))}; wait for it and try again")
        _check_holder(path)
        _write(handle, json.dumps(_me()).encode())
        try:
            yield
        finally:
            _write(handle, b"")
    finally:
        os.close(handle)  # which lets go of the lock


def _check_holder(path: Path) -> None:
    """Look at who is written in a lock that the system gave us: a dead process of this machine, or another machine."""
    holder = _holder(path)
    if not holder:
        return
    if holder.get("host") != socket.gethostname():
        raise LockedError(
            f"{path.parent} is being changed by {_words(holder)}, on another machine; if that process is gone, "
            f"delete {path} and try again"
        )
    logger.info("took over the lock of %s, which ended without giving it back", _words(holder))


def _me() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _holder(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _words(holder: dict[str, Any]) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"


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
