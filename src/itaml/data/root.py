"""Where data sets lie: the folder that was named, else `ITAML_DATA`, else a cache folder of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from itaml.hardware.machine import cache_folder

VARIABLE = "ITAML_DATA"


def data_root(explicit: str | Path | None = None) -> Path:
    """Return the data root; the folder need not exist.

    Args:
        explicit: what the user named, which wins. If None, the environment variable `ITAML_DATA` does, and if that is
            unset or empty, the cache folder of the user (`~/.cache/itaml` on Linux).
    """
    if explicit is not None:
        return Path(explicit).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    return cache_folder()
