"""How the C library of Linux hands out memory, for processes that train.

glibc gives large blocks back to the system as soon as they are free, and each training step asks for the same ones
again, of which the system clears every page. Keeping them takes no more memory than the largest step has taken before.
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")  # by the user, who knows better
LARGEST = 1 << 25  # bytes; larger blocks are always given back, which glibc does not let anybody change


def keep_freed_memory() -> bool:
    """Have this process keep the memory that it frees, for the next step; return whether that was possible."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _CHOSEN):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
