"""The model's folder: complete versions side by side, and a pointer that is switched by one atomic rename.

```
MODEL/
  current.json            names the version in use and its record's checksum; replaced atomically
  lock                    who is changing the model; empty when nobody is
  versions/000003/        one complete version: model.json, state.safetensors
  versions/000002/        the one before it, for `rollback`
  exemplars/              images that versions share, named by their content (see `exemplar_files`)
  tables/                 rows of tensors that versions share, named by their content (see `shared_tables`)
```

Every learn and every correction has the next number; version 0 is the empty model. A new version is written under a
hidden name, synced, renamed, and only then pointed to. So a kill, a full disk or a power cut leaves the old version in
use, or the new one; what goes wrong after the switch is no failure. Left-overs go with the next change. A reader takes
no lock: it reads the pointer and then files that never change, and reads again if a writer replaced them meanwhile.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from itaml.errors import CheckpointError, ItamlError, UsageError
from itaml.modelstore.checksummed_json import Pointer, pointer_from, verify_checksum
from itaml.modelstore.file_checks import UnreadableError, read_bytes, read_checked
from itaml.modelstore.manifest import Manifest, manifest_from
from itaml.modelstore.shared_files import EXEMPLARS, TABLES, sweep, tables
from itaml.modelstore.shared_tables import join
from itaml.safe_files import is_impossible_path, leftover, reason_of
from itaml.storage import State, parse_state

POINTER, LOCK, VERSIONS, RECORD, TENSORS = "current.json", "lock", "versions", "model.json", "state.safetensors"
CHECKPOINT = "learning.safetensors"  # of a learn that is under way, or was interrupted
KIND = "library state"
ATTEMPTS = 50  # to read a version while writers replace versions
_NUMBER = re.compile(r"[0-9]{6,9}")


@dataclass(frozen=True, eq=False)
class Version:
    """A version as read: where it is, its record and its tensors (None before the first learn)."""

    pointer: Pointer
    manifest: Manifest
    state: State | None

    @property
    def number(self) -> int:
        """The version's number."""
        return self.pointer.number


@dataclass(frozen=True)
class ModelFolder:
    """A folder on disk that holds a model, or will."""

    path: Path

    @property
    def pointer(self) -> Path:
        """The file that names the version in use."""
        return self.path / POINTER

    def exists(self) -> bool:
        """Whether a model is here.

        Raises:
            UsageError: something else is here.
        """
        if self.has_pointer() or self.numbers():
            return True
        if os.path.isdir(self.path):
            strange = next((name for name in _listed(self.path) if not _ours(name)), None)
            if strange is not None:
                raise UsageError(
                    f"{self.path} is a folder with other things in it ({strange}), not a model; choose another name"
                )
        elif os.path.lexists(self.path):
            raise UsageError(f"{self.path} is a file, not a model's folder; choose another name")
        return False

    def require(self) -> None:
        """Refuse a path without a model.

        Raises:
            UsageError: there is no model here.
        """
        if not self.exists():
            raise UsageError(f"there is no model in {self.path}; `itaml learn {self.path} IMAGES` makes one")

    def read(self) -> Version:
        """Read the version in use, whole and checked.

        Raises:
            UsageError: there is no model here.
            CheckpointError: the model is damaged or of a newer format.
        """
        self.require()
        for _ in range(ATTEMPTS):
            pointer = self.current()
            try:
                return self.read_version(pointer)
            except CheckpointError:
                if self.current() == pointer and pointer.number in self.numbers():
                    raise  # nobody replaced it meanwhile
        raise CheckpointError(f"{self.path} points to a version that is not there; `itaml rollback` mends that")

    def current(self) -> Pointer:
        """Return which version is in use; the newest, if a kill came before the first pointer.

        Raises:
            CheckpointError: the pointer is damaged.
        """
        if not self.has_pointer() and (numbers := self.numbers()):
            return Pointer(numbers[-1], None)
        return pointer_from(self.pointer, read_bytes(self.pointer))

    def read_version(self, pointer: Pointer) -> Version:
        """Read one version and check every byte of it.

        Raises:
            CheckpointError: it is damaged, of a newer format, or not the version that is asked for.
        """
        manifest, checksum = self.read_facts(pointer)
        path, state = self.folder(pointer.number) / TENSORS, None
        if TENSORS in manifest.files:
            state = parse_state(path, read_checked(path, manifest.files[TENSORS]), kind=KIND, checked=True)
            tables(self.path).refuse_link()
            state = join(state, manifest.tables, tables(self.path).read)
        return Version(Pointer(pointer.number, checksum), manifest, state)

    def read_facts(self, pointer: Pointer) -> tuple[Manifest, str]:
        """Read the record of a version, and its checksum (see `read_version` for errors)."""
        path = self.folder(pointer.number) / RECORD
        if pointer.number not in self.numbers():  # also if its folder is a link
            raise CheckpointError(f"{self.path} points to a version that is not there; `itaml rollback` mends that")
        sealed = verify_checksum(path, read_bytes(path), kind="model")
        manifest = manifest_from(path, sealed.body)
        if manifest.version not in (None, pointer.number):
            raise CheckpointError(
                f"{path} is the record of version {manifest.version}, in the place of another version"
            )
        if pointer.checksum not in (None, sealed.checksum):
            raise CheckpointError(f"{path} is not the record that {self.pointer} names; `itaml rollback` mends that")
        for name in manifest.files:
            if name != TENSORS:
                raise CheckpointError(f"{path} names a file that no version has: {name:.100}")
        return manifest, sealed.checksum

    def has_pointer(self) -> bool:
        """Whether there is a pointer, or anything in its place.

        Raises:
            UsageError: no folder can be at this path.
            UnreadableError: the disk does not say.
        """
        try:
            os.lstat(self.pointer)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) or is_impossible_path(error):
                raise UsageError(f"{self.path} cannot be a model's folder: {reason_of(error)}") from None
            raise UnreadableError.of(self.pointer, error) from error
        return True

    def numbers(self) -> list[int]:
        """Return the numbers of the versions that are there, oldest first.

        Raises:
            CheckpointError: the folder of versions is a link, or cannot be read.
        """
        home = self.path / VERSIONS
        try:
            if home.is_symlink():
                raise CheckpointError(f"{home} is a symbolic link, which is not followed; put the folder itself there")
            with os.scandir(home) as entries:
                found = [int(e.name) for e in entries if _NUMBER.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnreadableError.of(home, error) from error
        return sorted(found)

    def in_use(self) -> Pointer | None:
        """Return which version is in use, None if the files do not say."""
        try:
            return self.current()
        except ItamlError:
            return None

    def sweep_shared(self) -> None:
        """Remove shared files that no version names; only for a process that holds the lock."""
        with suppress(ItamlError):
            sweep(self.path, [self.folder(number) / RECORD for number in self.numbers()])

    def folder(self, number: int) -> Path:
        """Return the folder of a version."""
        return self.path / VERSIONS / f"{number:06d}"


def interrupted(name: str) -> bool:
    """Whether a name in a model's folder is that of a file whose writer was interrupted."""
    return leftover(name) or name.startswith(f".{POINTER}.")


def _ours(name: str) -> bool:
    return name in (LOCK, VERSIONS, EXEMPLARS, TABLES, CHECKPOINT) or interrupted(name)


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise UnreadableError.of(folder, error) from error


def size_on_disk(folder: ModelFolder) -> int:
    """Return the bytes that a model takes, with all its versions."""
    total = 0
    for root, _, names in os.walk(folder.path):
        for name in names:
            with suppress(OSError):  # a writer may remove an old version meanwhile
                total += os.lstat(os.path.join(root, name)).st_size
    return total
