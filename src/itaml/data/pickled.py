"""What a pickle may describe: numbers, text and numeric arrays, as inert records that are checked before use.

Nothing that a pickle names is looked up or called. `called` returns a record for the few names that arrays are pickled
with, and `plain` makes the array after its type, shape and number of bytes have been compared.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_DIMENSIONS = 8
LONGEST = 120  # characters of a file's own text in a message

_NUMERIC = re.compile(r"[iu][1248]|f[248]")
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy._core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
}
_SCALARS = (int, float, str, bytes, type(None))


class RefusedError(Exception):
    """The pickle asks for something that no data set needs."""


@dataclass(frozen=True)
class Name:
    """A function or class that the pickle names; it is never looked up."""

    name: str


@dataclass
class Dtype:
    """The type of an array's numbers."""

    code: str  # such as u1
    order: str = "|"


@dataclass
class Array:
    """An array that is not made yet."""

    state: tuple[Any, ...] | None = None  # version, shape, dtype, Fortran order, bytes


def named(module: str, name: str) -> Name:
    """Return a record for a permitted name.

    Raises:
        RefusedError: the name is not one that arrays are pickled with.
    """
    if (module, name) not in _NAMES:
        raise RefusedError(f"it asks for {short(f'{module}.{name}')}")
    return Name(_NAMES[module, name])


def called(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a permitted function would make, without calling it.

    Raises:
        RefusedError: arrays are not pickled with this call.
    """
    match function, arguments:
        case Name("reconstruct"), (Name("ndarray"), (0,), "b" | b"b"):
            return Array()
        case Name("dtype"), (str() | bytes() as code, *_):
            if not _NUMERIC.fullmatch(as_text(code)):
                raise RefusedError(f"it has an array of type {short(as_text(code))!r}, which is not numeric")
            return Dtype(as_text(code))
        case Name("encode"), (str() as text, "latin1"):
            return text.encode("latin1")
    raise RefusedError("it calls something in a way that no array needs")


def build(target: Any, state: tuple[Any, ...]) -> None:
    """Give a record the state that the pickle has for it.

    Raises:
        RefusedError: the record is not of an array, or has its state already.
    """
    if isinstance(target, Array) and target.state is None:
        target.state = state
    elif isinstance(target, Dtype) and _is_plain_type(state):
        target.order = as_text(state[1])
    else:
        raise RefusedError("it changes something that is not a plain array")


def _is_plain_type(state: tuple[Any, ...]) -> bool:
    """Say whether a type has no fields, no shape and its usual size: (3, order, None, None, None, -1, -1, 0)."""
    match state:
        case (3, _, None, None, None, int(size), int(alignment), 0):
            return size == alignment == -1
    return False


def plain(value: Any) -> Any:
    """Return a value of the dictionary, checked: lists hold scalars only, so nothing is ever nested.

    Raises:
        RefusedError: it is neither a scalar, nor a flat list, nor a numeric array.
    """
    if isinstance(value, Array):
        return _array(value)
    if isinstance(value, list | tuple):
        if not all(isinstance(item, _SCALARS) for item in value):
            raise RefusedError("it has a list of other things than numbers and text")
        return list(value)
    if not isinstance(value, _SCALARS):
        raise RefusedError(f"it holds a {type(value).__name__.lower()} in the place of data")
    return value


def _array(array: Array) -> npt.NDArray[Any]:
    match array.state:
        case (1, tuple() as shape, Dtype() as dtype, bool() | 0 | 1 as fortran, bytes() as content):
            pass
        case _:
            raise RefusedError("it has an array that is not described as numpy describes one")
    if len(shape) > MAX_DIMENSIONS or not all(type(side) is int and side >= 0 for side in shape):
        raise RefusedError("it has an array with an impossible shape")
    if dtype.order not in ("<", ">", "|", "="):
        raise RefusedError("it has an array with an unknown byte order")
    kind = np.dtype(("<" if dtype.order in "|=" else dtype.order) + dtype.code)
    if math.prod(shape) * kind.itemsize != len(content):
        raise RefusedError(f"it has an array of {len(content)} bytes, which does not fit its shape")
    return np.frombuffer(content, dtype=kind).reshape(shape, order="F" if fortran else "C")


def as_text(value: Any) -> str:
    """Return text, which Python 2 pickles as bytes.

    Raises:
        RefusedError: it is not text.
    """
    if isinstance(value, bytes):
        return value.decode("latin1")
    if not isinstance(value, str):
        raise RefusedError("it has no text where text is needed")
    return value


def short(text: str) -> str:
    """Return text from a file so that it can stand in a message."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:LONGEST])
    return shown + ("..." if len(text) > LONGEST else "")
