"""Changing a model's folder: one process at a time, complete versions, a switch by one atomic rename.

What the disk refuses before the switch leaves the old version in use; what it refuses afterwards is no failure.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from itaml._version import __version__
from itaml.errors import CheckpointError, ItamlError, UsageError
from itaml.modelstore.checksummed_json import MAX_VERSIONS, Pointer, add_checksum, checksum_of
from itaml.modelstore.file_checks import UnreadableError, disk_error, file_sum, remove
from itaml.modelstore.lock import acquire, release
from itaml.modelstore.manifest import Manifest
from itaml.modelstore.model_folder import (
    KIND,
    LOCK,
    RECORD,
    TENSORS,
    VERSIONS,
    ModelFolder,
    Version,
    interrupted,
)
from itaml.modelstore.shared_files import EXEMPLARS, TABLES, Contents, exemplars, tables
from itaml.modelstore.shared_tables import split
from itaml.storage import State, dump_state, sync_folder, write_atomically

logger = logging.getLogger(__name__)

KEPT = 2


@contextmanager
def changing(model: ModelFolder) -> Iterator[None]:
    """Hold the lock, and clear away what interrupted changes left; a new folder goes again if nothing is written.

    Raises:
        LockedError: another process is changing the model.
        ItamlError: the disk is full, read-only or broken.
    """
    new = not os.path.lexists(model.path)
    with _reported(model):
        model.path.mkdir(parents=True, exist_ok=True)
        handle = acquire(model.path / LOCK)
    try:
        with _reported(model):
            _sweep(model)
        yield
    finally:
        with suppress(ItamlError, OSError):
            if new and not model.numbers():
                for name in (VERSIONS, EXEMPLARS, TABLES, LOCK):  # the lock while it is held: nobody else is in here
                    remove(model.path / name)
                model.path.rmdir()
        release(handle)


@contextmanager
def _reported(model: ModelFolder) -> Iterator[None]:
    """Turn what the disk refuses into a sentence that says what the model is now."""
    before = model.in_use()
    try:
        yield
    except OSError as error:
        now = model.in_use()
        outcome = "nothing was changed" if now == before else f"version {now.number if now else '?'} is in use now"
        raise disk_error(model.path, error, outcome) from error


def write(model: ModelFolder, manifest: Manifest, state: State | None, images: Contents | None = None) -> Pointer:
    """Write a complete version, point to it, and remove all but the last two; only inside `changing`.

    Args:
        model: the folder.
        manifest: of the new version.
        state: its tensors.
        images: files of exemplars that may not be there yet.

    Raises:
        ItamlError: the disk refused; the message says which version is in use.
    """
    with _reported(model):
        numbers = model.numbers()
        if not manifest.classes and numbers == [0]:  # an empty model created again: its record is its only file
            model.pointer.unlink(missing_ok=True)  # a missing pointer means the newest version
            number = 0
        else:
            number = numbers[-1] + 1 if numbers else min(len(manifest.classes), 1)
        exemplars(model.path).write(images or {})
        pointer = _write_version(model, number, manifest, state)
    _prune(model, lambda numbers: numbers[-KEPT:])
    return pointer


def _write_version(model: ModelFolder, number: int, manifest: Manifest, state: State | None) -> Pointer:
    home, folder = model.path / VERSIONS, model.folder(number)
    home.mkdir(exist_ok=True)
    replacing = number in model.numbers()
    if number > MAX_VERSIONS:
        raise CheckpointError(f"{model.path} has no room for a version after {MAX_VERSIONS}; `save` makes a copy")
    if not replacing and os.path.lexists(folder):
        raise CheckpointError(f"{folder} is in the way and is not a version; delete it and try again")
    draft = Path(tempfile.mkdtemp(dir=home, prefix=f".{number:06d}."))
    pointer = None
    try:
        pointer = _fill(model, draft, number, manifest, state)
        if replacing:
            (draft / RECORD).replace(folder / RECORD)
            remove(draft)
        else:
            draft.rename(folder)
        sync_folder(home)
        point_to(model, pointer)
    except BaseException:
        remove(draft)
        now = model.in_use()
        if not replacing and now is not None and now != pointer:  # what is pointed to, or may be, must stay
            remove(folder)
        raise
    return pointer


def _fill(model: ModelFolder, draft: Path, number: int, manifest: Manifest, state: State | None) -> Pointer:
    """Write the files of a version into a folder, after the tables that it may share with other versions."""
    changes: dict[str, Any] = {"version": number, "files": {}, "tables": {}, "written_by": f"itaml {__version__}"}
    if state is not None:
        state, rows = split(state)
        tables(model.path).write(rows)
        data = dump_state(state, kind=KIND, checksum=False)
        write_atomically(draft / TENSORS, data)
        changes |= {"files": {TENSORS: file_sum(data)}, "tables": {name: len(part) for name, part in rows.items()}}
    record = add_checksum("model", manifest.model_copy(update=changes).model_dump(mode="json"))
    write_atomically(draft / RECORD, record)
    draft.chmod(0o755)
    return Pointer(number, checksum_of(record))


def write_with_past(
    model: ModelFolder, manifest: Manifest, state: State | None, past: tuple[Manifest, State | None] | None
) -> Pointer:
    """Write a complete version, point to it, and put `past` in the place of all others; only inside `changing`.

    Raises:
        ItamlError: the disk refused; the message says which version is in use.
    """
    with _reported(model):
        old = model.numbers()
        pointer = _write_version(model, old[-1] + 1, manifest, state)
        if past is not None:
            draft = Path(tempfile.mkdtemp(dir=model.path / VERSIONS, prefix=f".{old[-1]:06d}."))
            _fill(model, draft, old[-1], *past)
        for number in old:
            folder = model.folder(number)
            remove(folder.rename(folder.with_name(f".{folder.name}.old")))
        if past is not None:
            draft.rename(model.folder(old[-1]))
        sync_folder(model.path / VERSIONS)
    _prune(model, lambda numbers: numbers[-KEPT:])
    return pointer


def point_to(model: ModelFolder, pointer: Pointer) -> None:
    """Make a version the one in use; an error after the switch is only logged, because it is no failure."""
    try:
        write_atomically(
            model.pointer, add_checksum("pointer", {"version": pointer.number, "record": pointer.checksum})
        )
    except OSError as error:
        if model.in_use() != pointer:
            raise
        logger.warning("%s is switched to version %d, but not yet synced: %s", model.path, pointer.number, error)


def rollback_target(model: ModelFolder) -> tuple[Pointer | None, Version]:
    """Return which version is in use, None if that cannot be read, and the newest good version before it.

    Raises:
        UsageError: there is no model here, or no earlier version.
        CheckpointError: the disk does not let an earlier version be read.
    """
    model.require()
    try:
        now = model.current() if model.has_pointer() else None
    except UnreadableError:
        raise  # it may be good
    except CheckpointError:
        now = None
    for number in reversed(model.numbers()):
        if now is None or number < now.number:
            try:
                return now, model.read_version(Pointer(number, None))
            except UnreadableError:
                raise  # it may be good, and must not be skipped
            except CheckpointError as error:
                logger.info("version %d is not good: %s", number, error)
    raise UsageError(f"{model.path} has no earlier version to return to")


def rollback(model: ModelFolder) -> tuple[Pointer | None, Version]:
    """Return to the newest good version before the one in use; say from which and to which.

    Raises:
        UsageError: there is none.
        ItamlError: the disk refused; the message says which version is in use.
    """
    with changing(model):
        now, version = rollback_target(model)
        with _reported(model):
            point_to(model, version.pointer)
        _prune(model, lambda numbers: [number for number in numbers if number <= version.number])
    return now, version


def _prune(model: ModelFolder, keep: Callable[[list[int]], list[int]]) -> None:
    """Remove versions but those to keep; what the disk does not let go is removed by a later change."""
    with suppress(ItamlError):
        numbers = model.numbers()
        for number in set(numbers).difference(keep(numbers)):
            old = model.folder(number)
            with suppress(OSError):
                remove(old.rename(old.with_name(f".{old.name}.old")))
    model.sweep_shared()


def _sweep(model: ModelFolder) -> None:
    """Remove hidden names and versions that an interrupted change left; the end of this one removes shared files."""
    numbers = model.numbers()  # refuses a folder of versions that is a link
    left = [path for path in model.path.iterdir() if interrupted(path.name)]
    for path in [*left, *(model.path / VERSIONS).glob(".*")]:
        remove(path)
    now = model.in_use()
    if now is not None and model.has_pointer() and any(number > now.number for number in numbers):
        _prune(model, lambda numbers: [number for number in numbers if number <= now.number])


def copy_version(version: Version, target: ModelFolder, images: Contents) -> None:
    """Write a version with the files of its exemplars as the first of another model."""
    with changing(target):
        if target.exists():
            raise UsageError(f"{target.path} holds a model already; choose another name")
        write(target, version.manifest, version.state, images)
