"""Look which data sets are there, and download the ones that can be, checked before they are used.

A file is written under a temporary name, its checksum compared, and only then renamed; an archive is unpacked beside
its place and renamed when it is complete. So a download that was cut off is never taken for the data.
"""

from __future__ import annotations

import logging
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from itaml.data.layouts import LAYOUTS, Layout, Remote, layout
from itaml.data.root import data_root
from itaml.errors import DataError


class DownloadProgress(Protocol):
    """What pooch tells about a download: set `total`, then `update` with bytes, `reset` at the end, `close`."""

    total: int

    def update(self, count: int) -> None:
        """Note that `count` more bytes arrived."""

    def reset(self) -> None:
        """Go back to nothing."""

    def close(self) -> None:
        """End."""


@dataclass(frozen=True)
class DataStatus:
    """Whether a data set is there, where it was looked for, and what lacks."""

    name: str
    summary: str
    found: tuple[Path, ...]  # empty if it is not complete
    looked_for: tuple[str, ...]  # alternatives, relative to the root
    missing: tuple[str, ...]  # of the alternative that lacks least
    fetchable: bool
    note: str  # why it cannot be fetched

    @property
    def present(self) -> bool:
        """Whether the data set can be read."""
        return bool(self.found)


def status(root: str | Path | None = None) -> tuple[DataStatus, ...]:
    """Return the state of every data set under a data root (see `data_root` for the default)."""
    folder = data_root(root)
    return tuple(_status(known, folder) for known in LAYOUTS.values())


def fetch(name: str, root: str | Path | None = None, *, progress: DownloadProgress | None = None) -> tuple[Path, ...]:
    """Download a data set unless it is there, and return its paths.

    Raises:
        UnknownNameError: there is no data set of that name.
        DataError: it cannot be downloaded, or what came is not what it should be; the message says which file to put
            where.
    """
    known, folder = layout(name), data_root(root)
    found = known.find(folder)
    if found is not None:
        return found
    if not known.remotes:
        raise DataError(f"{name} is not in {folder / known.places[0][0]}; {known.why_not}")
    for remote in known.remotes:
        _download(known, remote, folder, progress)
        if remote.unpacks_to is not None:
            _unpack(folder / remote.path, folder / remote.unpacks_to)
    return known.require(folder)


def _status(known: Layout, root: Path) -> DataStatus:
    found = known.find(root)
    return DataStatus(
        name=known.name,
        summary=known.summary,
        found=found or (),
        looked_for=tuple(", ".join(place) for place in known.places),
        missing=() if found else known.missing(root),
        fetchable=bool(known.remotes),
        note=known.why_not,
    )


def _download(known: Layout, remote: Remote, root: Path, progress: DownloadProgress | None) -> None:
    import pooch  # noqa: PLC0415 (slow to import)

    pooch.get_logger().setLevel(logging.WARNING)
    target = root / remote.path
    reasons = []
    for url in remote.urls:
        try:
            pooch.retrieve(url, remote.checksum, fname=target.name, path=target.parent, progressbar=progress or False)
            return
        except ValueError:  # pooch compares before it renames
            reasons.append(f"what {url} sent has another checksum than {remote.checksum}")
        except OSError as error:  # also every error of requests
            reasons.append(f"no answer from {url} ({type(error).__name__})")
    wanted = [entry.path for entry in known.remotes if not (root / entry.path).exists()]
    files = ", ".join(Path(path).name for path in wanted)
    raise DataError(f"cannot download {known.name}: {'; '.join(reasons)}; put {files} into {target.parent} by hand")


def _unpack(archive: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{target.name}-") as folder:
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            (Path(folder) / target.name).rename(target)
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"cannot unpack {archive}: {error}") from error
    archive.unlink()
