"""Write the best settings of a study as a preset file, with where they come from in its comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from itaml.errors import SettingsError
from itaml.storage import write_atomically

WIDTH = 118  # characters of a comment


def write_preset(path: Path, settings: Mapping[str, Any], comments: Sequence[str]) -> None:
    """Write settings to a TOML file; the first comment is what `itaml list presets` shows.

    Raises:
        SettingsError: a setting has no form in TOML.
    """
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    lines += [f"{name} = {_toml(name, value)}" for name, value in settings.items() if value is not None]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def _toml(name: str, value: Any) -> str:
    """Return a value as TOML writes it; text, numbers, truth values and lists of them are written as in JSON."""
    if isinstance(value, Mapping):
        raise SettingsError(f"setting {name}: a table cannot be written to a preset")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(name, part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)
