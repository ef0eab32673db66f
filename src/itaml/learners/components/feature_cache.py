"""`FeatureCache`: frozen features by the content of their image, bounded, on disk, shared between learns and models.

It is an SQLite file in the user's cache folder. Losing it, or finding it damaged, costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from itaml.hardware.machine import cache_folder

LIMIT = 256 << 20  # bytes of features
TABLE = "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, used REAL, value BLOB) WITHOUT ROWID"
IN_MEMORY = 20_000  # feature vectors that one process keeps


class FeatureCache:
    """Features of images that were seen before.

    Args:
        folder: where the file is; None keeps features in memory only.
        limit: most bytes of features on disk; the least recently used are dropped.
        most: feature vectors in memory; the oldest are dropped.
    """

    def __init__(self, folder: Path | None, *, limit: int = LIMIT, most: int = IN_MEMORY) -> None:
        self.file = None if folder is None else folder / "features.sqlite"
        self.limit, self.most = limit, most
        self._memory: dict[bytes, Tensor] = {}

    def features(self, images: Tensor, kind: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the features (n, d) of images, computed only for those that are not in the cache.

        Args:
            images: pixels (n, c, h, w).
            kind: which features these are; other kinds of features never mix.
            compute: returns the features of some of the images.
        """
        keys = [_key(kind, image) for image in images]
        found = self._look_up(keys)
        missing = [row for row, key in enumerate(keys) if key not in found]
        if missing:
            fresh = compute(images[torch.tensor(missing)])
            new = {keys[row]: vector for row, vector in zip(missing, fresh, strict=True)}
            found |= new
            self._store(new)
        return torch.stack([found[key] for key in keys])

    def clear(self) -> None:
        """Forget all features, also those of other models: which image they are of is not recorded."""
        self._memory.clear()
        if self.file is not None:
            with suppress(OSError):
                self.file.unlink(missing_ok=True)

    def _look_up(self, keys: Sequence[bytes]) -> dict[bytes, Tensor]:
        found = {key: self._memory[key] for key in keys if key in self._memory}
        missing = [key for key in keys if key not in found]
        if self.file is None or not missing or not self.file.is_file():
            return found
        try:
            with closing(sqlite3.connect(self.file, timeout=5)) as connection:
                for key in missing:
                    row = connection.execute("SELECT value FROM features WHERE key = ?", (key,)).fetchone()
                    if row is not None:
                        found[key] = torch.from_numpy(np.frombuffer(row[0], np.float32).copy())
        except (sqlite3.Error, ValueError):
            return found  # damaged or locked: compute again
        self._remember(found)
        return found

    def _store(self, new: dict[bytes, Tensor]) -> None:
        self._remember(new)
        if self.file is None:
            return
        now = time.time()
        rows = [(key, now, vector.float().numpy().tobytes()) for key, vector in new.items()]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=5)) as connection, connection:
                connection.execute(TABLE)
                connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", rows)
                self._shrink(connection)
        except (sqlite3.OperationalError, OSError):
            return  # locked by another process, or the disk is full
        except sqlite3.DatabaseError:
            self.file.unlink(missing_ok=True)

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Drop the oldest features until the rest fit."""
        total = connection.execute("SELECT COALESCE(SUM(LENGTH(value)), 0) FROM features").fetchone()[0]
        if total <= self.limit:
            return
        for key, size in connection.execute("SELECT key, LENGTH(value) FROM features ORDER BY used").fetchall():
            connection.execute("DELETE FROM features WHERE key = ?", (key,))
            total -= size
            if total <= 0.8 * self.limit:
                return

    def _remember(self, some: dict[bytes, Tensor]) -> None:
        self._memory |= some
        while len(self._memory) > self.most:
            self._memory.pop(next(iter(self._memory)))


def user_cache() -> FeatureCache:
    """Return the cache in the user's cache folder."""
    return FeatureCache(cache_folder() / "features")


def _key(kind: str, image: Tensor) -> bytes:
    digest = hashlib.sha256(f"{kind} {image.dtype} {tuple(image.shape)}\n".encode())
    digest.update(image.contiguous().numpy().tobytes())
    return digest.digest()
