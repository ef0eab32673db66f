"""Sealed JSON files: `model.json` (the record of a version) and `current.json` (the pointer to the one in use).

A record carries the SHA-256 of all its other bytes, and is refused if a single one has changed. It names
its version, and the pointer (`current.json`) has its checksum, so that a record in the wrong place is found too.

| format | difference from the one before                                                                            |
|--------|-----------------------------------------------------------------------------------------------------------|
| 0      | the classes of each task as lists of names, no history, the options among the settings                    |
| 1      | history, options, validation images                                                                       |
| 2      | version number and pixel format in the record, its checksum in the pointer, the key `images`, counts    |
|        | of duplicates and of images whose label was changed                                                       |
| 3      | tables of the state in files that versions share, a row of values for each stored image                   |

Older formats are brought up to date one number at a time (`MIGRATIONS`) when they are read; the files on disk stay as
they are until the next learn writes a version in the present format.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itaml.errors import CheckpointError
from itaml.migration import migrate_manifest
from itaml.storage import parse_json

FORMAT = 3
MAX_VERSIONS = 999_999_999
Json = dict[str, Any]
END = b"\n}\n"
CHECKSUM_LINE = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n}\n\Z')


@dataclass(frozen=True)
class Pointer:
    """Which version is in use: its number and its record's checksum (None in folders of format 1 and older)."""

    number: int
    checksum: str | None


@dataclass(frozen=True)
class ChecksummedJson:
    """A record as read: its values, in the present format, and its checksum."""

    body: Json
    checksum: str


def add_checksum(kind: str, body: Mapping[str, Any], *, number: int = FORMAT) -> bytes:
    """Return a record as the bytes of its file."""
    text = _text({"itaml": kind, "format": number, **body})  # once: writing takes long for a model of many learns
    return text.removesuffix(END) + b',\n "checksum": "' + hashlib.sha256(text).hexdigest().encode() + b'"' + END


def checksum_of(data: bytes) -> str:
    """Return the checksum that a record with a checksum carries."""
    found = CHECKSUM_LINE.search(data)
    assert found is not None, "only for bytes that `add_checksum` returned"
    return found[1].decode()


def verify_checksum(path: Path, data: bytes, *, kind: str) -> ChecksummedJson:
    """Return the values of a record with a checksum, brought up to the present format.

    Raises:
        CheckpointError: it is damaged, foreign or of a newer format.
    """
    damaged = CheckpointError(
        f"{path} is damaged: its checksum does not fit; `itaml rollback` returns to the last good version"
    )
    try:
        value = parse_json(data)
    except ValueError:
        raise damaged from None
    if not isinstance(value, dict) or "itaml" not in value:
        raise CheckpointError(f"{path} was not written by itaml; it was left as it is")
    number = value.get("format")
    if type(number) is int and number > FORMAT:
        shown = number if number < MAX_VERSIONS else "of many digits"
        raise CheckpointError(
            f"{path} has format {shown}, and this itaml reads up to format {FORMAT}: update itaml to use this model"
        )
    if not _checksum_matches(data) or value["itaml"] != kind or type(number) is not int or number < 0:
        raise damaged
    outer = ("itaml", "format", "checksum")
    body = migrate(kind, {key: part for key, part in value.items() if key not in outer}, number)
    return ChecksummedJson(body, checksum_of(data))


def pointer_from(path: Path, data: bytes) -> Pointer:
    """Check the bytes of a `current.json`.

    Raises:
        CheckpointError: it is damaged, or does not name a version.
    """
    body = verify_checksum(path, data, kind="pointer").body
    number, checksum = body.get("version"), body.get("record")
    if type(number) is not int or not 0 <= number <= MAX_VERSIONS or not isinstance(checksum, str | None):
        raise CheckpointError(f"{path} does not name a version; `itaml rollback` returns to the last good version")
    return Pointer(number, checksum)


def _checksum_matches(data: bytes) -> bool:
    """Say whether a record's last line is the checksum of what is before it.

    The bytes are compared as they are: writing the values again takes many times longer for a model of many learns.
    """
    found = CHECKSUM_LINE.search(data)
    return found is not None and hashlib.sha256(data[: found.start()] + b"\n}\n").hexdigest().encode() == found[1]


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


MIGRATIONS: dict[tuple[str, int], Callable[[Json], Json]] = {("model", 0): _from_0, ("model", 1): migrate_manifest}


def migrate(kind: str, body: Json, number: int) -> Json:
    """Bring the body of an older format up to date.

    Raises:
        CheckpointError: it lacks something that its format must have.
    """
    try:
        for step in range(number, FORMAT):
            if (kind, step) in MIGRATIONS:
                body = MIGRATIONS[kind, step](body)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise CheckpointError(f"a {kind} of format {number} cannot be brought up to date: {error!r:.200}") from error
    return body


def _text(value: Mapping[str, Any]) -> bytes:
    """Return JSON with a line for each key: an indent takes several times as long and as much room."""
    lines = [f" {json.dumps(key)}: {_line(item)}" for key, item in value.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
