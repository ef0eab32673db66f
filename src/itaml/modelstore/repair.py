"""Check and mend models that may not even open."""

from __future__ import annotations

import os
from pathlib import Path

from itaml.modelstore import version_writer as writer
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.verification import problems

PathLike = str | os.PathLike[str]


def verify(path: PathLike) -> tuple[int, list[str]]:
    """Check every file of a model; return how many files there are, and a sentence for each thing wrong.

    Raises:
        UsageError: there is no model at `path`.
        ItamlError: other processes change the model all the time.
    """
    return problems(ModelFolder(Path(path)))


def rollback(path: PathLike) -> tuple[int | None, int]:
    """Return a model to its last good version before the one in use.

    Returns:
        The number of the version that was in use, None if that could not be read, and of the one that now is.

    Raises:
        UsageError: there is no model at `path`, or no earlier version.
        ItamlError: the disk refused; the message says which version is in use.
    """
    folder = ModelFolder(Path(path))
    folder.require()
    before, version = writer.rollback(folder)
    return None if before is None else before.number, version.number


def rollback_target(path: PathLike) -> tuple[int | None, int, tuple[str, ...]]:
    """Return what `rollback` would return, and the classes that would be known afterwards (see there for errors)."""
    before, version = writer.rollback_target(ModelFolder(Path(path)))
    return None if before is None else before.number, version.number, version.manifest.classes
