"""Model folders as a stranger could make them: links, pipes, hostile text, and records that are sealed but wrong."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml.modelstore.checksummed_json import FORMAT, add_checksum, checksum_of
from itaml.modelstore.model_folder import KIND
from itaml.storage import dump_state, parse_state

POINTER, LOCK = "current.json", "lock"
RECORD, STATE = "versions/000002/model.json", "versions/000002/state.safetensors"
FILES = (POINTER, RECORD, STATE, LOCK)
THINGS = (
    "pipe", "folder", "/dev/zero", "/dev/full", "/dev/tty", "precious", "hard link", "itself", "parent", "sparse",
    "missing", "/proc/self/mem", "unreadable",
)  # fmt: skip
TEXTS = (
    b"", b"null", b"[]", b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff\xfe\x00", b"NaN",
    b"-Infinity",
    b'{"itaml": "model", "format": ' + b"9" * 5000 + b"}", b'{"itaml": "pointer", "format": -1000000000}',
    b'"' + b"x" * 10**6,
    b'{"itaml": 1, "itaml": 2}', b"\x00" * 4096, b'{"\\ud800": 1}',
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 77, 10**6, 10**9, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, 5e-324, "",
    "x", "2", "../../precious.txt", "/etc/passwd", "x" * 10_000, "\x1b[2J\x07", "\ud800", "\x00", "os:system", [], {},
    [[]], [1], [1, 10**9, 10**9], {"a": 1}, {"": {}}, [None] * 1000, "mlp", "float32", "NaN",
)  # fmt: skip


def put_thing(path: Path, precious: Path, thing: str) -> None:
    """Put something that is not a regular file, or not ours, in the place of a file."""
    if path.exists() or path.is_symlink():
        path.unlink()
    if thing == "pipe":
        os.mkfifo(path)
    elif thing == "folder":
        path.mkdir()
    elif thing == "hard link":
        os.link(precious, path)
    elif thing == "sparse":
        path.touch()
        os.truncate(path, 1 << 40)
    elif thing == "unreadable":
        path.touch()
        path.chmod(0)
    elif thing != "missing":
        path.symlink_to({"precious": str(precious), "itself": str(path), "parent": ".."}.get(thing, thing))


def write_record(model: Path, body: dict[str, Any], *, number: int = FORMAT) -> None:
    """Write a record as somebody could who knows the format, and point to it."""
    inner = {key: value for key, value in body.items() if key not in ("itaml", "format", "checksum")}
    data = add_checksum("model", inner, number=number)
    (model / RECORD).write_bytes(data)
    (model / POINTER).write_bytes(add_checksum("pointer", {"version": 2, "record": checksum_of(data)}))


def read_record(model: Path) -> dict[str, Any]:
    """Return the record of the version in use."""
    value: dict[str, Any] = json.loads((model / RECORD).read_text())
    return value


def change_somewhere(value: Any, draw: random.Random, pool: tuple[Any, ...] = VALUES) -> Any:
    """Return nested values with one of them, at any depth, replaced, removed or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(sorted(value))
        if draw.random() < 0.08:
            return {name: part for name, part in value.items() if name != key}
        if draw.random() < 0.05:
            return {**value, draw.choice(("evil", "", "__class__", "x" * 1000)): draw.choice(pool)}
        return {**value, key: change_somewhere(value[key], draw, pool)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        if draw.random() < 0.1:
            return value + value
        return [*value[:place], change_somewhere(value[place], draw, pool), *value[place + 1 :]]
    return change_tensor(value, draw) if isinstance(value, Tensor) else draw.choice(pool)


def change_tensor(value: Tensor, draw: random.Random) -> Any:
    """Return another tensor, or something else, in the place of a tensor."""
    changes: tuple[Callable[[], Any], ...] = (
        value.flatten,
        lambda: value[:0],
        value.double,
        lambda: value.to(torch.uint8),
        lambda: torch.full_like(value, float("nan")) if value.is_floating_point() else value - 10,
        lambda: torch.full_like(value, float("inf")) if value.is_floating_point() else value * 0 + 2**62,
        lambda: torch.zeros(3, 5),
        lambda: torch.zeros(()),
        lambda: torch.zeros(0, 0, 0, 0),
        lambda: value.unsqueeze(0).repeat(2, *[1] * value.dim()),
        lambda: "text",
        lambda: None,
    )
    return draw.choice(changes)()


def wrong_record(model: Path, draw: random.Random) -> str:
    """Seal a record in which one to three values are wrong."""
    body = read_record(model)
    for _ in range(draw.choice((1, 1, 2, 3))):
        body = change_somewhere(body, draw)
        body = body if isinstance(body, dict) else {}
    number = draw.choice((FORMAT, FORMAT, FORMAT, 2, 1, 0, -(10**9), FORMAT + 1, 10**40))
    try:
        write_record(model, body, number=number)
    except (ValueError, UnicodeEncodeError):  # not a number in JSON, or not text: as bytes, then
        (model / RECORD).write_bytes(json.dumps(body).encode())
    return f"record of format {number}"


def wrong_state(model: Path, draw: random.Random) -> str:
    """Write a state in which one to three values are wrong, with the right checksums."""
    state: Any = parse_state(model / STATE, (model / STATE).read_bytes(), kind=KIND, checked=True)
    for _ in range(draw.choice((1, 1, 2, 3))):
        state = change_somewhere(state, draw, tuple(value for value in VALUES if value not in ("\ud800",)))
        state = state if isinstance(state, dict) else {}
    put_state(model, dump_state(state, kind=draw.choice((KIND, KIND, KIND, "thing")), checksum=False))
    return "state"


def wrong_tensors(model: Path, draw: random.Random) -> str:
    """Write a safetensors file whose header lies, with the right checksums."""
    data = (model / STATE).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = draw.choice([key for key in header if key != "__metadata__"])
    kind = draw.randrange(6)
    if kind == 0:
        header[name]["shape"] = draw.choice(([-1], [2**62, 2**62], [10**9], [], ["x"], None, [0, 2**63]))
    elif kind == 1:
        header[name]["data_offsets"] = draw.choice(([0, 2**63], [5, 1], [-8, 0], [0], "x", [0, len(rest) + 1]))
    elif kind == 2:
        header[name]["dtype"] = draw.choice(("F64", "I64", "BOOL", "O", "F4", "", 3))
    elif kind == 3:
        header["__metadata__"] = draw.choice(
            ({}, None, {"itaml": 3}, {"itaml": KIND, "format": "9" * 5000, "body": "["})
        )
    elif kind == 4:
        header["__metadata__"]["body"] = draw.choice(
            ("[" * 10**5, '{"$tensor": "nothing"}', "9" * 5000, "null", "[]", "{}")
        )
    text = json.dumps(header).encode()
    size = draw.choice((2**63, 2**40, 0, 1, len(text) + 9)) if kind == 5 else len(text)
    put_state(model, struct.pack("<Q", size) + text + rest)
    return f"safetensors {kind}"


def put_state(model: Path, data: bytes) -> None:
    """Write a state and a record that has its checksum."""
    (model / STATE).write_bytes(data)
    total = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_record(model, {**read_record(model), "files": {Path(STATE).name: total}})
