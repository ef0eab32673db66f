"""States on disk: nested plain values and tensors in one safetensors file, complete or absent, never pickled.

The tensors are the file's tensors; everything else is JSON in the file's header, where a tensor's place is held by its
key. A SHA-256 of both stands beside it, so that a flipped byte is found. A file is written under a temporary name,
synced and renamed, so that a kill or a full disk leaves the former file as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from itaml.errors import CheckpointError

State = dict[str, Any]  # str -> Tensor, number, text, None, or lists and dicts of them
FORMAT = 1
_KEY = "$tensor"


def save_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write a state; `kind` says what it is, and reading it as anything else is refused."""
    tensors: dict[str, Tensor] = {}
    body = json.dumps(_strip(state, "", tensors), sort_keys=True, allow_nan=False)
    metadata = {"itaml": kind, "format": str(FORMAT), "body": body, "sha256": _digest(body, tensors)}
    write_atomically(path, save(tensors, metadata))


def load_state(path: Path, *, kind: str) -> State:
    """Read a state that `save_state` wrote.

    Raises:
        CheckpointError: the file is missing, damaged, foreign, of another kind or of a newer format.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged and cannot be read ({error}); delete it to start afresh") from error
    if metadata.get("itaml") != kind:
        found = metadata.get("itaml", "a file of another program")
        raise CheckpointError(f"{path} is not a {kind} of itaml but {found}; it was left as it is")
    number, body = metadata.get("format", ""), metadata.get("body", "")
    if number.isdecimal() and int(number) > FORMAT:
        raise CheckpointError(f"{path} has format {number}, newer than {FORMAT}: a newer itaml is needed")
    if not number.isdecimal() or metadata.get("sha256") != _digest(body, tensors):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit; delete it to start afresh")
    state: State = _fill(json.loads(body), tensors)
    return state


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that at any moment there is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON for people and programs, atomically."""
    write_atomically(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):  # so that the rename itself survives a power cut; not possible on Windows
        handle = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _strip(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return `value` with its tensors replaced by their keys, and collect them."""
    if isinstance(value, Tensor):
        while path in tensors:  # "a/b" and "b" inside "a" are different places
            path += "'"
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {_KEY: path}
    if isinstance(value, Mapping):
        assert all(isinstance(key, str) for key in value), f"keys must be text at {path or 'the root'}"
        return {key: _strip(item, f"{path}/{key}" if path else key, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strip(item, f"{path}/{index}", tensors) for index, item in enumerate(value)]
    return value


def _fill(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_KEY}:
            return tensors[value[_KEY]]
        return {key: _fill(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, tensors) for item in value]
    return value


def _digest(body: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(body.encode())
    for key in sorted(tensors):
        tensor = tensors[key]
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
