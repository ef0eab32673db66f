"""Which files in a folder are images, which are not, and what to install for those that could be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from itaml.data.decoding import HEIF_EXTENSIONS, extensions, heif_installed
from itaml.errors import DataError
from itaml.text import count

SHOWN = 5


@dataclass(frozen=True)
class Listing:
    """Files below a folder, as sorted names relative to it."""

    images: tuple[str, ...]
    others: tuple[str, ...]  # whose extension is not that of an image


def list_images(folder: str) -> Listing:
    """List the files below a folder; hidden ones and linked folders are left out.

    Raises:
        DataError: the folder cannot be read.
    """
    known = extensions()
    images: list[str] = []
    others: list[str] = []
    pending = [""]
    try:
        while pending:
            inner = pending.pop()
            with os.scandir(os.path.join(folder, inner)) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(os.path.join(inner, entry.name))
                    else:
                        found = images if entry.name.lower().endswith(known) else others
                        found.append(os.path.join(inner, entry.name))
    except OSError as error:
        raise DataError(f"cannot read the folder {folder}: {(error.strerror or str(error)).lower()}") from error
    return Listing(tuple(sorted(images)), tuple(sorted(others)))


def notes_about(paths: Sequence[str]) -> list[str]:
    """Return sentences about files that were left out because of their extension."""
    photos = [path for path in paths if path.lower().endswith(HEIF_EXTENSIONS)]
    others = [path for path in paths if not path.lower().endswith(HEIF_EXTENSIONS)]
    notes = []
    if photos:
        notes.append(
            f"{count(len(photos), 'HEIC file')} left out ({_shown(photos)}): run `pip install pillow-heif` to read them"
        )
    if others:
        notes.append(f"{count(len(others), 'file')} left out, not of a known image format ({_shown(others)})")
    return notes


def what_to_install(path: str) -> str:
    """Return what to add to the reason why a file cannot be read: what to install for it, if something can be."""
    missing = path.lower().endswith(HEIF_EXTENSIONS) and not heif_installed()
    return "; `pip install pillow-heif` to read HEIC files" if missing else ""


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")
