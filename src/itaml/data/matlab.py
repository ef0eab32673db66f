"""Read numeric arrays from MATLAB 5 files.

A general reader makes whatever a file describes: cells, structures, objects, and arrays as large as a few bytes claim.
This one knows plain numeric arrays; their size is compared with the bytes that are there, and nothing is decompressed
beyond it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from itaml.data.safe_reading import read_data
from itaml.errors import DataError

MAX_BYTES = 500_000_000  # of a file, and of one array
MAX_ELEMENTS = 1000
MAX_DIMENSIONS = 8
HEADER = 128
PEEK = 4096  # bytes of a variable that hold its size and name

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_NUMERIC = range(6, 16)  # classes of arrays, from double to uint64
_COMPLEX = 0x800


class _BrokenError(Exception):
    """The file does not say what it must."""


def read_matlab(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the given names, in the types they are stored in and in MATLAB's order of axes.

    Raises:
        DataError: the file is missing, too large, broken, or lacks one of the names.
    """
    raw = memoryview(read_data(path, limit=MAX_BYTES))
    found: dict[str, npt.NDArray[Any]] = {}
    try:
        order = {b"IM": "<", b"MI": ">"}.get(bytes(raw[HEADER - 2 : HEADER]))
        if order is None:
            raise _BrokenError("it has another format than MATLAB 5")
        for packed, data in _variables(raw, order):
            name, array = _array(data, order, names, packed=packed)
            if name in found:
                raise _BrokenError(f"it has {name} twice")
            if array is not None:
                found[name] = array
    except (_BrokenError, zlib.error, ValueError) as error:
        raise DataError(f"cannot read {path} as a MATLAB file: {error}") from error
    lacking = next((name for name in names if name not in found), None)
    if lacking is not None:
        raise DataError(f"cannot read {path} as a MATLAB file: it has no numeric array {lacking}")
    return found


def _variables(raw: memoryview, order: str) -> Iterator[tuple[bool, memoryview]]:
    """Yield each variable of a file with its tag, and whether it is compressed."""
    place = HEADER
    for _ in range(MAX_ELEMENTS):
        if place >= len(raw):
            return
        kind, body, after = _element(raw, place, order)
        yield (True, body) if kind == _COMPRESSED else (False, raw[place:after])
        place = after
    raise _BrokenError(f"it has more than {MAX_ELEMENTS} variables")


def _array(
    data: memoryview, order: str, names: Collection[str], *, packed: bool
) -> tuple[str, npt.NDArray[Any] | None]:
    """Return the name of a variable, and its values if it is wanted and numeric."""
    head = memoryview(_inflated(data, PEEK)) if packed else data
    kind, size, start = _tag(head, 0, order)
    if kind != _MATRIX:
        raise _BrokenError("it has a variable that is not an array")
    flags, start = _numbers(head, start, order)
    sides, start = _numbers(head, start, order)
    letters, start = _numbers(head, start, order)
    name = letters.astype(np.uint8).tobytes().decode("latin1")
    if name not in names:
        return name, None
    first = int(flags[0]) if len(flags) else 0
    if first & 0xFF not in _NUMERIC or first & _COMPLEX:
        raise _BrokenError(f"{name} is not a plain array of numbers")
    if not 0 < len(sides) <= MAX_DIMENSIONS or int(sides.min()) < 0:
        raise _BrokenError(f"{name} has an impossible shape")
    if size > MAX_BYTES:
        raise _BrokenError(f"{name} has {size} bytes, more than the limit of {MAX_BYTES}")
    values, _ = _numbers(memoryview(_inflated(data, size + 16)) if packed else data, start, order)
    if math.prod(map(int, sides)) != len(values):
        raise _BrokenError(f"{name} has {len(values)} values, which do not fit its shape")
    return name, values.reshape(tuple(map(int, sides)), order="F")


def _numbers(data: memoryview, place: int, order: str) -> tuple[npt.NDArray[Any], int]:
    """Return the numbers of an element and where the next begins."""
    kind, body, after = _element(data, place, order)
    if kind not in _TYPES:
        raise _BrokenError("it has numbers of an unknown type")
    return np.frombuffer(body, dtype=order + _TYPES[kind]), after


def _element(data: memoryview, place: int, order: str) -> tuple[int, memoryview, int]:
    """Return the type and the bytes of an element and where the next begins."""
    kind, size, start = _tag(data, place, order)
    if start + size > len(data):
        raise _BrokenError("it is cut off")
    padding = 0 if kind == _COMPRESSED else -(start + size - place) % 8
    return kind, data[start : start + size], start + size + padding


def _tag(data: memoryview, place: int, order: str) -> tuple[int, int, int]:
    """Return the type, the number of bytes and the start of an element; one of up to four bytes lies in its tag."""
    if place + 8 > len(data):
        raise _BrokenError("it is cut off")
    first, second = np.frombuffer(data[place : place + 8], dtype=order + "u4").tolist()
    if first >> 16:
        return first & 0xFFFF, min(first >> 16, 4), place + 4
    return first, second, place + 8


def _inflated(data: memoryview, limit: int) -> bytes:
    return zlib.decompressobj().decompress(data, limit)
