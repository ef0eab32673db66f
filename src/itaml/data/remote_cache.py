"""A bounded cache of remote files on the local disk, addressed by content.

`blobs/<sha256 of the bytes>` holds the bytes, `urls/<sha256 of the URL>` which of them a URL had: no name of a file
comes from outside. Files are written under a temporary name and renamed, so several processes may share a cache. When
it grows beyond its limit, the files that were not used for longest are deleted; those of the last minute stay, because
a reader may be about to open them.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock

from itaml.data.remote_files import open_remote
from itaml.errors import DataError, SettingsError
from itaml.hardware.machine import cache_folder

VARIABLE = "ITAML_REMOTE_CACHE_GB"  # largest size of the cache
DEFAULT_GB = 20.0
MAX_OBJECT = 8_000_000_000  # bytes of one remote file
BLOCK = 1 << 20
RECENT = 60.0  # seconds


class RemoteCache:
    """Copies of remote files.

    Args:
        folder: where they are; a folder in the user's cache folder if None.
        limit: bytes of all together; `ITAML_REMOTE_CACHE_GB`, or 20 GB, if None.
    """

    def __init__(self, folder: Path | None = None, *, limit: int | None = None) -> None:
        self.folder = cache_folder() / "remote" if folder is None else folder
        self.limit = _limit() if limit is None else limit
        self._used: int | None = None  # bytes, as far as this process knows
        self._lock = Lock()

    def fetch(self, url: str) -> Path:
        """Return a local copy of a remote file, downloading it if there is none.

        Raises:
            DataError: it cannot be read, or is too large.
            MissingExtraError: a package is missing.
        """
        pointer = self.folder / "urls" / hashlib.sha256(url.encode()).hexdigest()
        with suppress(OSError):
            digest = pointer.read_text(encoding="ascii")
            blob = self.folder / "blobs" / digest
            if re.fullmatch(r"[0-9a-f]{64}", digest) and blob.is_file():
                os.utime(blob)
                return blob
        return self._download(url, pointer)

    def _download(self, url: str, pointer: Path) -> Path:
        blobs = self.folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        pointer.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".partial")
        try:
            with os.fdopen(handle, "wb") as local, open_remote(url) as remote:
                while block := remote.read(BLOCK):
                    size += len(block)
                    if size > min(MAX_OBJECT, self.limit):
                        raise DataError(f"cannot read {url}: it is larger than the cache of {self.limit} bytes")
                    digest.update(block)
                    local.write(block)
            blob = blobs / digest.hexdigest()
            os.replace(name, blob)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
        self._point(pointer, digest.hexdigest())
        self._bound(size)
        return blob

    def _point(self, pointer: Path, digest: str) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".partial")
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(digest)
        os.replace(name, pointer)

    def _bound(self, added: int) -> None:
        """Delete the least recently used blobs if there are too many bytes."""
        with self._lock:
            if self._used is not None:
                self._used += added
                if self._used <= self.limit:
                    return
            found = []
            for entry in os.scandir(self.folder / "blobs"):
                with suppress(OSError):  # another process deleted it
                    found.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
            self._used = sum(size for _, size, _ in found)
            for when, size, path in sorted(found):
                if self._used <= self.limit or time.time() - when < RECENT:
                    break
                with suppress(OSError):
                    os.unlink(path)
                self._used -= size


def _limit() -> int:
    """Return the largest size of the cache in bytes."""
    text = os.environ.get(VARIABLE) or str(DEFAULT_GB)
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise SettingsError(f"{VARIABLE} must be a number of gigabytes (got {text!r})") from None
