"""Files that the versions of a model share: named by the SHA-256 of their content, in a folder of the model.

`exemplars` has images (see `exemplar_files`), `tables` has rows of tensors (see `shared_tables`). A version's record
names those that belong to it, with their sizes. A file never changes. It is written and synced before the version that
names it, and removed when no version names it any more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.checksummed_json import verify_checksum
from itaml.modelstore.file_checks import UnreadableError, read_bytes, read_checked, read_expected, remove
from itaml.modelstore.manifest import FileSum, shared_names
from itaml.storage import sync_folder

EXEMPLARS, TABLES = "exemplars", "tables"

Contents = Mapping[str, bytes | memoryview]  # SHA-256 -> bytes of a file


@dataclass(frozen=True)
class SharedFiles:
    """A folder of files that are named by their content."""

    home: Path
    suffix: str

    def path_of(self, sha256: str) -> Path:
        """Return where a file is."""
        return self.home / f"{sha256}{self.suffix}"

    def read(self, sha256: str, size: int) -> bytes:
        """Read a file and compare its checksum.

        Raises:
            CheckpointError: it is missing, unreadable, changed, or not a regular file; or the folder is a link.
        """
        self.refuse_link()
        return read_checked(self.path_of(sha256), FileSum(size=size, sha256=sha256))

    def write(self, contents: Contents) -> None:
        """Write files that are not there yet, or are damaged, synced; only inside `version_writer.changing`.

        Raises:
            OSError: the disk refused.
        """
        if not contents:
            return
        self._refuse_link()
        self.home.mkdir(exist_ok=True)
        drafts = []
        for sha256, data in contents.items():
            path = self.path_of(sha256)
            if not _holds(path, data):
                drafts.append((_write(path, data), path))
        for draft, _ in drafts:  # after all are written: the disk then has one batch to write, not one after another
            _sync(draft)
        for draft, path in drafts:
            draft.replace(path)
        if drafts:
            sync_folder(self.home)  # once for all files: a sync for each would take longer than learning

    def sweep(self, named: Set[str]) -> None:
        """Remove files that are not named, and what interrupted changes left."""
        if self.home.is_symlink() or not self.home.is_dir():
            return
        for name in {*os.listdir(self.home)}.difference(f"{sha256}{self.suffix}" for sha256 in named):
            if name.startswith(".") or re.fullmatch(f"[0-9a-f]{{64}}{re.escape(self.suffix)}", name):
                remove(self.home / name)

    def refuse_link(self) -> None:
        """Refuse a folder that is a link.

        Raises:
            CheckpointError: it is one, or the disk does not say.
        """
        try:
            self._refuse_link()
        except OSError as error:
            raise UnreadableError.of(self.home, error) from error

    def _refuse_link(self) -> None:
        if self.home.is_symlink():
            raise CheckpointError(f"{self.home} is a symbolic link, which is not followed; put the folder itself there")


def exemplars(model: Path) -> SharedFiles:
    """Return the images in a model's folder."""
    return SharedFiles(model / EXEMPLARS, ".webp")


def tables(model: Path) -> SharedFiles:
    """Return the rows of tables in a model's folder."""
    return SharedFiles(model / TABLES, ".rows")


def sweep(model: Path, records: Sequence[Path]) -> None:
    """Remove files that no version names; nothing is removed while a record cannot be read.

    Args:
        model: the folder.
        records: those of all versions; they are checked against their checksums, but not understood otherwise.
    """
    places = [place for place in (exemplars(model), tables(model)) if os.path.lexists(place.home)]
    with suppress(ItamlError, OSError):
        named: set[str] = set()
        for path in records if places else ():
            named |= shared_names(path, verify_checksum(path, read_bytes(path), kind="model").body)
        for place in places:
            place.sweep(named)


def _holds(path: Path, data: bytes | memoryview) -> bool:
    """Say whether a file has these bytes: all are compared, so that a damaged one is written again."""
    with suppress(CheckpointError):
        return read_expected(path, len(data)) == bytes(data)  # a memoryview would be compared item by item
    return False


def _write(path: Path, data: bytes | memoryview) -> Path:
    draft = path.with_name(f".{path.name}")
    remove(draft)
    with open(draft, "xb") as file:
        file.write(data)
    return draft


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
