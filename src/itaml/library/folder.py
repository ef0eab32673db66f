"""The model's folder: complete versions side by side, and a pointer that is switched by one atomic rename.

```
MODEL/
  current.json            names the version in use; replaced atomically
  lock                    who is changing the model; empty when nobody is
  versions/000003/        one complete version: model.json, state.safetensors
  versions/000002/        the one before it, for `rollback`
```

A new version is written under a hidden name, synced, renamed, and only then pointed to. So a kill, a full disk or a
power cut leaves the old version in use, or the new one. Left-overs have hidden names and go with the next change. A
reader takes no lock: it reads the pointer and then files that never change.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from itaml._version import __version__
from itaml.errors import CheckpointError, UsageError
from itaml.library.disk import check_file, disk_words, file_sum, read_bytes, sync_folder
from itaml.library.lock import locked
from itaml.library.record import Facts, facts_from, seal, unseal
from itaml.storage import State, load_state, save_state, write_atomically

POINTER, LOCK, VERSIONS, RECORD, TENSORS = "current.json", "lock", "versions", "model.json", "state.safetensors"
KIND = "library state"
KEPT = 2
ATTEMPTS = 5  # to read a version while writers replace versions


@dataclass(frozen=True, eq=False)
class Version:
    """A version as read: its number, its record and its tensors (None before the first learn)."""

    number: int
    facts: Facts
    state: State | None


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
        if self.pointer.is_file() or self.numbers():
            return True
        if self.path.is_dir():
            strange = next((name for name in sorted(os.listdir(self.path)) if not _ours(name)), None)
            if strange is not None:
                raise UsageError(
                    f"{self.path} is a folder with other things in it ({strange}), not a model; choose another name"
                )
        elif self.path.exists() or self.path.is_symlink():
            raise UsageError(f"{self.path} is a file, not a model's folder; choose another name")
        return False

    def require(self) -> None:
        """Refuse a path without a model.

        Raises:
            UsageError: there is no model here.
        """
        if not self.exists():
            raise UsageError(f"there is no model in {self.path}; `itaml learn {self.path} PICTURES` makes one")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock, clear away what interrupted changes left, and put disk errors into words.

        Raises:
            LockedError: another process is changing the model.
            ItamlError: the disk is full, read-only or broken.
        """
        with disk_words(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / LOCK):
                self._sweep()
                yield

    def read(self) -> Version:
        """Read the version in use, whole and checked.

        Raises:
            UsageError: there is no model here.
            CheckpointError: the model is damaged or of a newer format.
        """
        self.require()
        for _ in range(ATTEMPTS):
            number = self.current()
            try:
                return self.read_version(number)
            except CheckpointError:
                if self.current() == number and self._folder(number).is_dir():
                    raise  # nobody replaced it meanwhile
        raise CheckpointError(f"{self.path} points to a version that is not there; `itaml rollback` mends that")

    def current(self) -> int:
        """Return the number of the version in use; the newest, if a kill came before the first pointer.

        Raises:
            CheckpointError: the pointer is damaged.
        """
        if not self.pointer.is_file() and self.numbers():
            return self.numbers()[-1]
        body = unseal(self.pointer, read_bytes(self.pointer), kind="pointer")
        return int(body["version"])

    def read_version(self, number: int) -> Version:
        """Read one version and check every byte of it.

        Raises:
            CheckpointError: it is damaged or of a newer format.
        """
        folder = self._folder(number)
        facts = facts_from(folder / RECORD, unseal(folder / RECORD, read_bytes(folder / RECORD), kind="model"))
        for name, expected in facts.files.items():
            if name != TENSORS:
                raise CheckpointError(f"{folder / RECORD} names a file that no version has: {name}")
            check_file(folder / name, expected)
        state = load_state(folder / TENSORS, kind=KIND) if TENSORS in facts.files else None
        return Version(number, facts, state)

    def numbers(self) -> list[int]:
        """Return the numbers of the versions that are there, oldest first."""
        folder = self.path / VERSIONS
        names = os.listdir(folder) if folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdecimal() and (folder / name).is_dir())

    def write(self, facts: Facts, state: State | None) -> int:
        """Write a complete version, point to it, and remove all but the last two; only inside `changing`."""
        number = max(self.numbers(), default=0) + 1
        home = self.path / VERSIONS
        home.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=home, prefix=f".{number:06d}."))
        files = {}
        if state is not None:
            save_state(draft / TENSORS, state, kind=KIND)
            files[TENSORS] = file_sum(draft / TENSORS)
        facts = facts.model_copy(update={"files": files, "written_by": f"itaml {__version__}"})
        write_atomically(draft / RECORD, seal("model", facts.model_dump(mode="json")))
        draft.chmod(0o755)
        draft.rename(self._folder(number))
        sync_folder(home)
        self.point_to(number)
        self._prune(keep=self.numbers()[-KEPT:])
        return number

    def point_to(self, number: int) -> None:
        """Make a version the one in use."""
        write_atomically(self.pointer, seal("pointer", {"version": number}))

    def rollback(self) -> tuple[int | None, int]:
        """Return to the newest good version before the one in use; say from which and to which.

        Raises:
            UsageError: there is none.
        """
        with self.changing():
            try:
                now = self.current() if self.pointer.is_file() else None
            except CheckpointError:
                now = None  # a damaged pointer: the newest good version is the one that was in use, or was about to be
            for number in reversed(self.numbers()):
                if (now is None or number < now) and self._good(number):
                    self.point_to(number)
                    self._prune(keep=[other for other in self.numbers() if other <= number])
                    return now, number
        raise UsageError(f"{self.path} has no earlier version to return to")

    def problems(self) -> tuple[int, list[str]]:
        """Check every file; return how many there are and a sentence for each thing wrong.

        Raises:
            UsageError: there is no model here.
        """
        self.require()
        found = [] if self.pointer.is_file() else [f"{self.pointer} is missing; `itaml rollback` makes a new one"]
        checked = 1
        try:
            current: int | None = self.current()
        except CheckpointError as error:
            current = None
            found.append(str(error))
        numbers = self.numbers()
        if current is not None and current not in numbers:
            found.append(f"{self.path} points to version {current}, which is not there")
        for number in numbers:
            checked += sum(1 for _ in self._folder(number).iterdir())
            try:
                self._complete(number)
            except CheckpointError as error:
                found.append(str(error))
        return checked, found

    def _complete(self, number: int) -> None:
        version = self.read_version(number)
        expected = {RECORD, *version.facts.files}
        for name in sorted(os.listdir(self._folder(number))):
            if name not in expected:
                raise CheckpointError(f"{self._folder(number) / name} does not belong to the model")

    def _good(self, number: int) -> bool:
        try:
            self.read_version(number)
        except CheckpointError:
            return False
        return True

    def _folder(self, number: int) -> Path:
        return self.path / VERSIONS / f"{number:06d}"

    def _prune(self, keep: list[int]) -> None:
        for number in self.numbers():
            if number not in keep:
                old = self._folder(number)
                shutil.rmtree(old.rename(old.with_name(f".{old.name}.old")))

    def _sweep(self) -> None:
        """Remove what an interrupted change left behind: only hidden names, which nothing points to."""
        for left in [*self.path.glob(f".{POINTER}.*"), *(self.path / VERSIONS).glob(".*")]:
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()
        if self.pointer.is_file():
            try:
                newest = self.current()
            except CheckpointError:
                return
            for number in self.numbers():
                if number > newest:  # renamed, but never pointed to
                    shutil.rmtree(self._folder(number))


def copy_version(version: Version, target: ModelFolder) -> None:
    """Write a version as the first of another model."""
    with target.changing():
        if target.exists():
            raise UsageError(f"{target.path} holds a model already; choose another name")
        target.write(version.facts, version.state)


def _ours(name: str) -> bool:
    return name in (LOCK, VERSIONS) or name.startswith(f".{POINTER}.")


def size_on_disk(folder: ModelFolder) -> int:
    """Return the bytes that a model takes, with all its versions."""
    return sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file())
