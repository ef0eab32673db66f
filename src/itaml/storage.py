"""States on disk: nested plain values and tensors in one safetensors file, complete or absent, never pickled.

The tensors are the file's tensors; everything else is JSON in the file's header, where a tensor's place is held by its
key. A SHA-256 of both stands beside it, so that a flipped byte is found. A file is written under a temporary name,
synced and renamed, so that a kill or a full disk leaves the former file as it was.

Reading and writing files themselves is in `safe_files`, whose names can be imported from here as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from itaml.errors import CheckpointError, UnsafeFileError
from itaml.migration import migrate_state
from itaml.safe_files import open_regular, parse_json, read_regular, sync_folder, write_atomically, write_json

__all__ = [
    "STATE_LIMIT",
    "State",
    "dump_state",
    "load_state",
    "open_regular",
    "parse_json",
    "parse_state",
    "read_regular",
    "save_state",
    "sync_folder",
    "write_atomically",
    "write_json",
]

State = dict[str, Any]  # str -> Tensor, number, text, None, or lists and dicts of them
FORMAT = 2  # 1 had other names for some keys (see `itaml.migration`)
STATE_LIMIT = 8 << 30  # bytes of a state; 20,000 exemplars of 224 x 224 pixels take 3 GB
_KEY = "$tensor"
_PLAIN = (int, float, str)
_HEADER = 8  # bytes of a safetensors file that hold the length of its header


def save_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write a state; a file of one `kind` is not read as another."""
    write_atomically(path, dump_state(state, kind=kind))


def dump_state(state: Mapping[str, Any], *, kind: str, checksum: bool = True) -> bytes:
    """Return the bytes of a state's file; without a checksum if the caller keeps one of the whole file."""
    tensors: dict[str, Tensor] = {}
    body = json.dumps(_strip(state, "", tensors, set()), sort_keys=True, allow_nan=False)
    digest = {"sha256": _digest(body, tensors)} if checksum else {}
    data: bytes = save(tensors, {"itaml": kind, "format": str(FORMAT), "body": body, **digest})
    return data


def load_state(path: Path, *, kind: str, limit: int = STATE_LIMIT) -> State:
    """Read a state that `save_state` wrote.

    Raises:
        CheckpointError: the file is missing, damaged, foreign, of another kind or of a newer format.
    """
    try:
        data = read_regular(path, limit=limit)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist") from None
    except UnsafeFileError as error:
        raise CheckpointError(str(error)) from None
    except OSError as error:
        raise CheckpointError(f"{path} is damaged and cannot be read ({error}); delete it to start afresh") from error
    return parse_state(path, data, kind=kind)


def parse_state(path: Path, data: bytes, *, kind: str, checked: bool = False) -> State:
    """Return the state that the bytes of a file hold; `path` is for messages.

    Args:
        path: where the bytes are from.
        data: the whole file.
        kind: what the state must be.
        checked: the caller has compared the checksum of `data` itself.

    Raises:
        CheckpointError: see `load_state`.
    """
    try:
        tensors = load(data)
        length = int.from_bytes(data[:_HEADER], "little")
        metadata = parse_json(data[_HEADER : _HEADER + length]).get("__metadata__") or {}
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be read ({error}); delete it to start afresh") from error
    if metadata.get("itaml") != kind:
        found = metadata.get("itaml", "a file of another program")
        raise CheckpointError(f"{path} is not a {kind} of itaml but {found}; it was left as it is")
    number, body = metadata.get("format", ""), metadata.get("body", "")
    if number.isdecimal() and number != str(FORMAT) and (len(number) > 9 or int(number) > FORMAT):
        raise CheckpointError(f"{path} has format {number[:9]}, newer than {FORMAT}: a newer itaml is needed")
    damaged = CheckpointError(f"{path} is damaged: its checksum does not fit; delete it to start afresh")
    if not number.isdecimal() or not (checked or metadata.get("sha256") == _digest(body, tensors)):
        raise damaged
    try:
        state: State = _fill(parse_json(body), tensors)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    if not isinstance(state, dict):
        raise damaged
    return state if int(number) == FORMAT else migrate_state(state)


def _strip(value: Any, path: str, tensors: dict[str, Tensor], used: set[int]) -> Any:
    """Return `value` with its tensors replaced by their keys, and collect them; `used` are addresses of tensors."""
    if isinstance(value, Tensor):
        while path in tensors:  # "a/b" and "b" inside "a" are different places
            path += "'"
        plain = value.detach().cpu().contiguous()
        whole = plain.untyped_storage().nbytes() == plain.nbytes
        tensors[path] = plain if whole and plain.data_ptr() not in used else plain.clone()  # none may share memory
        used.add(plain.data_ptr())
        return {_KEY: path}
    if isinstance(value, Mapping):
        assert all(isinstance(key, str) for key in value), f"keys must be text at {path or 'the root'}"
        return {key: _strip(item, f"{path}/{key}" if path else key, tensors, used) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if all(type(item) in _PLAIN for item in value):  # thousands of numbers, such as the classes of a state
            return list(value)
        return [_strip(item, f"{path}/{index}", tensors, used) for index, item in enumerate(value)]
    return value


def _fill(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_KEY}:
            return tensors[value[_KEY]]
        return {key: _fill(item, tensors) for key, item in value.items()}
    if isinstance(value, list) and not all(type(item) in _PLAIN for item in value):
        return [_fill(item, tensors) for item in value]
    return value


def _digest(body: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(body.encode())
    for key in sorted(tensors):
        tensor = tensors[key]
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
