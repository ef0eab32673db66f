"""`verify`: is every byte of a model as it was written? Without false alarms while another process writes."""

from __future__ import annotations

import os
import time

from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.checksummed_json import Pointer
from itaml.modelstore.exemplar_files import read_file
from itaml.modelstore.model_folder import RECORD, ModelFolder
from itaml.modelstore.shared_files import tables

ATTEMPTS = 100
PAUSE = 0.02  # seconds


def problems(folder: ModelFolder) -> tuple[int, list[str]]:
    """Check every file; return how many there are and a sentence for each thing wrong.

    What is found wrong counts only if the pointer and the list of versions were the same before and after: versions
    never change, so a writer that came between has changed one of the two.

    Raises:
        UsageError: there is no model here.
        ItamlError: another process replaces versions faster than they can be checked.
    """
    folder.require()
    for _ in range(ATTEMPTS):
        before = _signature(folder)
        checked, found = _problems(folder)
        if not found or _signature(folder) == before:
            return checked, found
        time.sleep(PAUSE)
    raise ItamlError(f"{folder.path} is being changed all the time and could not be checked; try again later")


def _signature(folder: ModelFolder) -> tuple[tuple[int, int] | None, tuple[int, ...]]:
    try:
        found = os.lstat(folder.pointer)
    except OSError:
        return None, tuple(folder.numbers())
    return (found.st_ino, found.st_mtime_ns), tuple(folder.numbers())


def _problems(folder: ModelFolder) -> tuple[int, list[str]]:
    missing = f"{folder.pointer} is missing; `itaml rollback` makes a new one"
    found = [] if folder.has_pointer() else [missing]
    checked, current = 1, None
    try:
        current = folder.current()
    except CheckpointError as error:
        found.append(str(error))
    numbers = folder.numbers()
    if current is not None and current.number not in numbers:
        found.append(f"{folder.path} points to version {current.number}, which is not there")
    for number in numbers:
        try:
            pointer = current if current is not None and current.number == number else Pointer(number, None)
            checked += _check_version(folder, pointer)
        except CheckpointError as error:
            found.append(str(error))
    return checked, found


def _check_version(folder: ModelFolder, pointer: Pointer) -> int:
    """Check every file of a version; return how many there are."""
    manifest = folder.read_version(pointer).manifest
    expected = {RECORD, *manifest.files}
    try:
        names = sorted(os.listdir(folder.folder(pointer.number)))
    except OSError as error:
        raise CheckpointError(f"{folder.folder(pointer.number)} cannot be read: {error.strerror}") from error
    for name in names:
        if name not in expected:
            raise CheckpointError(f"{folder.folder(pointer.number) / name} does not belong to the model")
    files = {image.sha256: image for image in manifest.stored_images}
    for image in files.values():
        read_file(folder, image)
    for name, size in manifest.tables.items():  # also where reading the version has restored one
        tables(folder.path).read(name, size)
    return len(names) + len(files) + len(manifest.tables)
