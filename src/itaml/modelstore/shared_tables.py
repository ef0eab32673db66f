"""Tables of a state that grow at their end: versions share the rows that stay as they are.

The sums of classes, the exemplars and the digests of learned images are tables to which a learn adds rows. Each is
written as files of some rows, named by their content, so a learn writes the last rows alone and two versions hold the
others once. A dictionary of tensors that differ in their length alone, such as the exemplars of each class, is one
table. All else of a state stays together in `state.safetensors`, which names the files of its tables.

Files have a power of two of rows, at least `FEWEST` and about an eighth of the table: a table has some ten files,
whatever its length, and is written again as a whole only when its length has doubled.

What two versions share must not be lost to both by one damaged file. So the state of each version has the exclusive or
of the files of each table, from which any one of them is restored (as in RAID 5); its checksum says that it is right.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from itaml.errors import CheckpointError
from itaml.modelstore.file_checks import file_sum
from itaml.modelstore.manifest import FileSum
from itaml.storage import STATE_LIMIT, State

logger = logging.getLogger(__name__)

FEWEST = 16  # rows of a file
SMALLEST = 16 << 10  # bytes of a table; a smaller one is not worth a file
GROWING = frozenset({"sums", "digests"})  # tensors that are tables by themselves
TABLE, PACKED = "$table", "$packed"
DTYPES = {
    str(d).removeprefix("torch."): d for d in (torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64)
}

Files = dict[str, memoryview]  # SHA-256 -> rows


def split(state: State) -> tuple[State, Files]:
    """Return a state with its tables replaced by the names of their files, and the files."""
    files: Files = {}
    return _split(state, files), files


def join(state: State, sizes: Mapping[str, int], read: Callable[[str, int], bytes]) -> State:
    """Return a state with its tables, the inverse of `split`.

    Args:
        state: what `split` returned.
        sizes: bytes of each file, by its SHA-256.
        read: returns the content of a file, checked.

    Raises:
        CheckpointError: a file is missing or damaged, or the state is not one that `split` returns.
    """
    left = dict(sizes)
    try:
        joined: State = _join(state, left, read)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"the tables of the state are damaged ({error!r:.200})") from error
    if left:
        raise CheckpointError("the record names rows that are in no table of the state")
    return joined


def rows_per_file(rows: int) -> int:
    """Return how many rows of a table with so many are in a file."""
    return max(FEWEST, 1 << max(0, rows // 8).bit_length() - 1) if rows >= 8 else FEWEST


def _split(value: Any, files: Files) -> Any:
    if not isinstance(value, Mapping):
        return value
    if _is_packable(value):
        table = torch.cat(list(value.values()))
        packed = {"keys": list(value), "counts": [len(part) for part in value.values()], "rows": table}
        return {PACKED: {**packed, "rows": _files_of(table, files)}}
    return {
        key: _files_of(item, files) if key in GROWING and isinstance(item, Tensor) else _split(item, files)
        for key, item in value.items()
    }


def _is_packable(value: Mapping[str, Any]) -> bool:
    first = next(iter(value.values()), None)
    if len(value) < 2 or not isinstance(first, Tensor) or first.ndim < 1:
        return False
    kind = first.dtype, first.shape[1:]
    return all(
        isinstance(part, Tensor) and part.ndim and (part.dtype, part.shape[1:]) == kind for part in value.values()
    )


def _files_of(table: Tensor, files: Files) -> Any:
    """Return the names of a table's files, or the table itself if it is small or of a rare kind."""
    kind = str(table.dtype).removeprefix("torch.")
    if kind not in DTYPES or table.nbytes < SMALLEST or not table.ndim:
        return table
    parts = table.detach().cpu().contiguous().split(rows_per_file(len(table)))
    found = {}
    for part in parts:
        data = _bytes(part.numpy()).data
        found[file_sum(data).sha256] = data
    if len(found) < len(parts) or not files.keys().isdisjoint(found):  # rows that repeat: `join` wants each file once
        return table
    files.update(found)
    parity = torch.from_numpy(_exclusive_or(list(found.values())))
    return {TABLE: {"dtype": kind, "shape": list(table.shape), "files": list(found), "parity": parity}}


def _join(value: Any, sizes: dict[str, int], read: Callable[[str, int], bytes]) -> Any:
    if not isinstance(value, dict):
        return value
    if set(value) == {TABLE}:
        return _table(value[TABLE], sizes, read)
    if set(value) == {PACKED}:
        packed = value[PACKED]
        rows = _join(packed["rows"], sizes, read)
        parts = rows.split([int(count) for count in packed["counts"]])
        return {str(key): part for key, part in zip(packed["keys"], parts, strict=True)}
    return {key: _join(item, sizes, read) for key, item in value.items()}


def _table(described: Mapping[str, Any], sizes: dict[str, int], read: Callable[[str, int], bytes]) -> Tensor:
    """Read a table; its files are as large as it is, so a few bytes cannot ask for much memory."""
    dtype, shape = DTYPES[described["dtype"]], [int(size) for size in described["shape"]]
    if any(size < 0 for size in shape):
        raise ValueError("a negative length")
    expected = math.prod(shape) * dtype.itemsize
    own = [(name, sizes.pop(name)) for name in described["files"]]  # a file belongs to one place
    if sum(size for _, size in own) != expected or expected > STATE_LIMIT:
        raise ValueError("a table of another length than its files")
    parts: list[bytes | None] = []
    for name, size in own:
        try:
            parts.append(read(name, size))
        except CheckpointError as error:
            if None in parts:
                raise
            parts.append(None)
            damaged = error
    if None in parts:
        at = parts.index(None)
        parts[at] = _restored(parts, described["parity"], own[at])
        if parts[at] is None:
            raise damaged
        logger.warning("%s; its rows were restored, and the next learn writes them again", damaged)
    data = bytearray(b"".join(part for part in parts if part is not None))
    return (
        torch.frombuffer(data, dtype=torch.uint8).view(dtype).view(shape) if data else torch.empty(shape, dtype=dtype)
    )


def _restored(parts: Sequence[bytes | None], parity: Tensor, missing: tuple[str, int]) -> bytes | None:
    """Return the file that is missing among those of a table, None if it cannot be restored."""
    name, size = missing
    others = [memoryview(part) for part in parts if part is not None]
    data = _exclusive_or([*others, _bytes(parity.numpy()).data])[:size].tobytes()
    return data if file_sum(data) == FileSum(size=size, sha256=name) else None


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _exclusive_or(parts: Sequence[memoryview]) -> npt.NDArray[np.uint8]:
    """Return the exclusive or of files, the shorter ones filled up with zeros."""
    found = np.zeros(max(map(len, parts)), np.uint8)
    for part in parts:
        found[: len(part)] ^= np.frombuffer(part, np.uint8)
    return found
