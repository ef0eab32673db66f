"""Programs of `torch.export` (`.pt2`) can run code when they are loaded: the user must have named them.

A backbone `file:PROGRAM.pt2` that the user names, in Python or on the command line, is trusted from then on: the
SHA-256 of the file is kept in the user's cache folder. A program that a record names is loaded if it is known there, or
if the environment variable `ITAML_TRUST_PROGRAMS` is 1.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from itaml.errors import CheckpointError, UnsafeFileError
from itaml.hardware.machine import cache_folder
from itaml.safe_files import open_regular

VARIABLE = "ITAML_TRUST_PROGRAMS"
PREFIX, SUFFIX = "file:", ".pt2"
LIMIT = 8 << 30  # bytes of a program
_known: set[str] = set()  # digests, of this process


def trust_programs(names: Iterable[object]) -> None:
    """Remember the programs among the backbones that the user names; a cache folder that cannot be written is left."""
    for path in _programs(names):
        with suppress(OSError, UnsafeFileError):  # what is wrong with the file is said when it is loaded
            digest = _digest(path)
            _known.add(digest)
            _mark(digest).parent.mkdir(parents=True, exist_ok=True)
            _mark(digest).touch()


def check_programs(names: Iterable[object]) -> None:
    """Refuse programs among the backbones that a record names, unless the user has named them before.

    Raises:
        CheckpointError: there is one that is not known.
    """
    for path in _programs(names):
        if os.environ.get(VARIABLE) == "1":
            return
        try:
            digest = _digest(path)
        except (OSError, UnsafeFileError):  # it cannot be loaded either
            continue
        if digest not in _known and not _mark(digest).is_file():
            raise CheckpointError(
                f"the model names the program {path} as its backbone, which can run code and was never named by you; "
                f"if you trust whoever made it, set {VARIABLE}=1"
            )


def _programs(names: Iterable[object]) -> list[Path]:
    named = [name.removeprefix(PREFIX) for name in names if isinstance(name, str) and name.startswith(PREFIX)]
    return [path for path in map(Path, named) if path.suffix == SUFFIX]


def _digest(path: Path) -> str:
    with open_regular(os.path.realpath(path), limit=LIMIT) as file:
        digest = hashlib.sha256()
        while part := file.read(1 << 20):
            digest.update(part)
        return digest.hexdigest()


def _mark(digest: str) -> Path:
    return cache_folder() / "programs" / digest
