"""Read the pickles that old data sets come in, without letting them run anything.

A pickle names functions and has them called. Here only what a numpy array needs is found under these names; everything
else is refused, so the worst that a hostile file can do is to be unreadable.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from itaml.errors import DataError


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """Stand in for `_codecs.encode`, which Python 3 writes into old pickles to carry bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"an encoding {encoding!r}, which no data set has")
    return text.encode("latin1")


_RECONSTRUCT = np.zeros(0).__reduce__()[0]  # numpy's own function, wherever this version of numpy keeps it
_PERMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PERMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _PERMITTED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside itself")


def read_pickle(data: bytes, *, source: str) -> dict[str, Any]:
    """Return the dictionary in a pickle of containers, numbers, strings and arrays; `source` is named in errors.

    Raises:
        DataError: the pickle is broken, is no dictionary, or asks for anything else than arrays.
    """
    try:
        content = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    except pickle.UnpicklingError as error:
        raise DataError(f"{source} is not read: {error}; a data set holds arrays, lists and names only") from error
    except Exception as error:  # broken opcodes fail in every way there is
        raise DataError(f"{source} is a broken pickle: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{source} should hold a dictionary, not a {type(content).__name__}")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
