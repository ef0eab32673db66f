"""What `model.json` says of a version: names, dates, settings, history and the checksum of every other file.

A record is sealed: it carries the SHA-256 of all its other bytes, and is refused if a single one has changed.
Older formats are brought up to date one number at a time (`MIGRATIONS`) when they are read; the files on disk stay as
they are until the next learn writes a version in the present format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from itaml.config import Settings
from itaml.errors import CheckpointError

FORMAT = 1
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Json = dict[str, Any]


class Options(Settings):
    """What the user fixed when the model was made; None is chosen for the pictures."""

    preset: str = "best"
    backbone: str | None = None
    image_size: Annotated[int, Field(ge=4, le=1024)] | None = None
    memory: Annotated[int, Field(ge=1)] = 2000
    epochs: Annotated[int, Field(ge=1)] | None = None
    seed: int = 0
    settings: Json = Field(default_factory=dict)  # overrides of the learner's settings


class FileSum(Settings):
    """Size and checksum of a file."""

    size: Count
    sha256: str


class TaskRecord(Settings):
    """Classes that arrived together."""

    classes: tuple[str, ...]
    learned: str  # date and time


class TaskScore(Settings):
    """Accuracy on a task's held-back pictures, each alone among all classes, before and after a learn."""

    task: Count
    pictures: Count
    before: Fraction | None
    after: Fraction | None


class LearnRecord(Settings):
    """What one learn was and did."""

    date: str
    new: tuple[str, ...]
    known: tuple[str, ...]
    pictures: dict[str, Count]  # learned from, by class
    skipped: Count  # pictures that could not be read
    epochs: Count
    seconds: float
    validation_pictures: Count
    validation: Fraction | None  # class accuracy on the new data's validation pictures, each alone
    tasks: tuple[TaskScore, ...]


class Facts(Settings):
    """Everything about a version but its tensors."""

    options: Options
    shape: tuple[int, int, int] | None = None  # of one image; None before the first learn
    settings: Json = Field(default_factory=dict)  # of the learner
    classes: tuple[str, ...] = ()  # class id -> name
    tasks: tuple[TaskRecord, ...] = ()
    learns: tuple[LearnRecord, ...] = ()
    written_by: str = ""
    files: dict[str, FileSum] = Field(default_factory=dict)


SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n}\n\Z')


def seal(kind: str, body: Mapping[str, Any], *, number: int = FORMAT) -> bytes:
    """Return a record as the bytes of its file."""
    value = {"itaml": kind, "format": number, **body}
    return _text({**value, "checksum": hashlib.sha256(_text(value)).hexdigest()})


def unseal(path: Path, data: bytes, *, kind: str) -> Json:
    """Return the body of a sealed record, brought up to the present format.

    Raises:
        CheckpointError: it is damaged, foreign or of a newer format.
    """
    damaged = CheckpointError(
        f"{path} is damaged: its checksum does not fit; `itaml rollback` returns to the last good version"
    )
    try:
        value = json.loads(data)
    except ValueError:
        raise damaged from None
    if not isinstance(value, dict) or "itaml" not in value:
        raise CheckpointError(f"{path} was not written by itaml; it was left as it is")
    number = value.get("format")
    if isinstance(number, int) and number > FORMAT:
        raise CheckpointError(
            f"{path} has format {number}, and this itaml reads up to format {FORMAT}: update itaml to use this model"
        )
    if not _is_sealed(data) or value["itaml"] != kind or not isinstance(number, int):
        raise damaged
    outer = ("itaml", "format", "checksum")
    return migrate(kind, {key: part for key, part in value.items() if key not in outer}, number)


def _is_sealed(data: bytes) -> bool:
    """Say whether a record's last line is the checksum of what is before it.

    The bytes are compared as they are: writing the values anew takes many times longer for a model of many learns.
    """
    seal = SEAL.search(data)
    return seal is not None and hashlib.sha256(data[: seal.start()] + b"\n}\n").hexdigest().encode() == seal[1]


def facts_from(path: Path, body: Json) -> Facts:
    """Check the body of a `model.json`.

    Raises:
        CheckpointError: it does not say what it must.
    """
    try:
        return Facts(**body)
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path} does not describe a model ({where}: {first['msg']})") from error


def _from_0(body: Json) -> Json:
    """Format 0 had the classes of each task as lists of names, no history and its options among the settings."""
    tasks = [{"classes": names, "learned": body["created"]} for names in body["tasks"]]
    settings = dict(body["settings"])
    options = {"memory": settings["memory"], "seed": body.get("seed", 0), "backbone": settings.get("backbone")}
    return {
        "options": {**options, "image_size": body["shape"][1] if body["shape"] else None},
        "shape": body["shape"],
        "settings": settings,
        "classes": [name for names in body["tasks"] for name in names],
        "tasks": tasks,
        "files": body["files"],
    }


MIGRATIONS: dict[tuple[str, int], Callable[[Json], Json]] = {("model", 0): _from_0}


def migrate(kind: str, body: Json, number: int) -> Json:
    """Bring the body of an older format up to date.

    Raises:
        CheckpointError: it lacks something that its format must have.
    """
    try:
        for step in range(number, FORMAT):
            if (kind, step) in MIGRATIONS:
                body = MIGRATIONS[kind, step](body)
    except (KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"a {kind} of format {number} cannot be brought up to date: {error!r}") from error
    return body


def _text(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
