"""Have Pillow warn nobody about the images of others while they are decoded.

What is wrong with an image is said by us, in one sentence, where that matters. `warnings.catch_warnings` is of no use
here: it puts back all filters that it found, and images are decoded by several threads at once. One filter is put in
front instead, and taken out when the last thread is done. Pillow's reader of TIFF also logs an error, which Python
prints where no logging is set up.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

MODULES = r"(PIL|pillow_heif|itaml\.data)\."  # a warning may be ascribed to the caller


class _Muted:
    """The filter, and how many threads need it."""

    lock, users = Lock(), 0
    entry: Any = None
    logger = logging.getLogger("PIL.TiffImagePlugin")
    was_disabled = False


@contextmanager
def no_pillow_warnings() -> Iterator[None]:
    """Ignore warnings about images inside the block."""
    with _Muted.lock:
        _Muted.users += 1
        if _Muted.users == 1:
            warnings.filterwarnings("ignore", module=MODULES)
            _Muted.entry = warnings.filters[0]
            _Muted.was_disabled, _Muted.logger.disabled = _Muted.logger.disabled, True
    try:
        yield
    finally:
        with _Muted.lock:
            _Muted.users -= 1
            if not _Muted.users:
                _Muted.logger.disabled = _Muted.was_disabled
                with suppress(ValueError):  # somebody has put other filters in the place of all
                    warnings.filters.remove(_Muted.entry)  # type: ignore[attr-defined]
