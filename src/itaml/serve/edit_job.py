"""The correcting process: merges classes or moves images, which may have to learn, with the lowest priority.

usage: python -m itaml.serve.edit_job MODEL THREADS < EDIT

EDIT is the JSON of an `Edit`. It prints the JSON of an `EditAnswer`.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

from itaml.config import Settings
from itaml.errors import DataError, ItamlError, SettingsError, UnknownNameError, UsageError
from itaml.modelstore.class_editing import EditReport
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.lock import LockedError

NICE = 19
ERRORS = {kind.__name__: kind for kind in (DataError, LockedError, SettingsError, UnknownNameError, UsageError)}


class Edit(Settings):
    """What to do: merge the class `source` with `target`, or move images to the class `target`."""

    action: Literal["merge", "relabel"]
    target: str
    source: str = ""
    images: tuple[str, ...] = ()  # staged files


class EditAnswer(Settings):
    """What was done, or why not."""

    version: int = 0
    classes: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    error: str | None = None  # the name of its class
    message: str = ""


def apply(model: ImageClassifier, edit: Edit) -> EditReport:
    """Correct a model (see `ImageClassifier.merge` and `relabel` for errors)."""
    if edit.action == "merge":
        return model.merge(edit.source, edit.target)
    return model.relabel(list(edit.images), to=edit.target)


def apply_in_process(path: Path, edit: Edit, *, threads: int) -> EditReport:
    """Correct a model in a process of its own, so that predictions go on.

    Raises:
        ItamlError: as `apply`; or the process ended without an answer.
    """
    command = [sys.executable, "-m", "itaml.serve.edit_job", str(path), str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    environment.pop("ITAML_SERVE_OPTIONS", None)
    done = subprocess.run(
        command,
        input=edit.model_dump_json().encode(),
        stdout=subprocess.PIPE,
        env=environment,
        check=False,
        start_new_session=True,  # a Ctrl-C in the terminal of the service is not for the correction
    )
    if done.returncode:
        raise ItamlError(f"the correcting process ended with code {done.returncode}")
    answer = EditAnswer.model_validate_json(done.stdout)
    if answer.error is not None:
        raise ERRORS.get(answer.error, ItamlError)(answer.message)
    return EditReport(edit.action, answer.classes, answer.known, answer.version)


def main(arguments: list[str]) -> int:
    """Make the correction that standard input tells."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    logging.getLogger("itaml").addHandler(logging.NullHandler())
    edit = Edit.model_validate_json(sys.stdin.buffer.read())
    try:
        found = apply(ImageClassifier.open(arguments[0], threads=int(arguments[1])), edit)
        answer = EditAnswer(version=found.version, classes=found.classes, known=found.known)
    except ItamlError as error:
        answer = EditAnswer(error=type(error).__name__, message=str(error))
    sys.stdout.write(answer.model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
