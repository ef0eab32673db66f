"""The page: a fixed list of files of the package, read once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
PAGE = "index.html"


@dataclass(frozen=True)
class StaticFile:
    """A file of the page."""

    data: bytes
    media_type: str
    tag: str


def static_files() -> dict[str, StaticFile]:
    """Return all files of the page by name."""
    found = {}
    for entry in files("itaml.serve").joinpath("static").iterdir():
        kind = TYPES.get("." + entry.name.rpartition(".")[2])
        if kind is not None and entry.is_file():
            data = entry.read_bytes()
            found[entry.name] = StaticFile(data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found
