"""Find a font that can write a text: Pillow's own, or one that is installed on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

ENDINGS = (".ttf", ".ttc", ".otf")
LIKELY = ("cjk", "unifont", "unicode", "gothic", "mincho", "noto", "ipa", "hei", "ming", "malgun", "meiryo", "dejavu")
MOST_FONTS = 400  # that are tried
MISSING = "\U000fffff"  # of a private area: every font draws its sign for a missing character


def font_for(text: str, *, size: int) -> Font | None:
    """Return a font that has a glyph for every character of a text, None if none is found."""
    own = ImageFont.load_default(size)
    if _writes(own, text):
        return own
    for path in _installed():
        font = _load(path, size)
        if font is not None and _writes(font, text):
            return font
    return None


def _writes(font: Font, text: str) -> bool:
    """Whether a font draws every character as something else than a missing one."""
    try:
        missing = bytes(font.getmask(MISSING))
        return all(c.isspace() or bytes(font.getmask(c)) != missing for c in set(text))
    except (OSError, ValueError, UnicodeEncodeError):
        return False


@lru_cache(maxsize=64)
def _load(path: str, size: int) -> ImageFont.FreeTypeFont | None:
    try:
        return ImageFont.truetype(path, size)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    """Return the font files of this machine, those that are likely to have many characters first."""
    found = sorted({str(file) for folder in _folders() for file in _files(folder)}, key=lambda path: (len(path), path))
    likely = [path for path in found if any(word in os.path.basename(path).lower() for word in LIKELY)]
    return tuple([*likely, *(path for path in found if path not in likely)][:MOST_FONTS])


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names if name.lower().endswith(ENDINGS))


def _folders() -> list[Path]:
    home = Path.home()
    if sys.platform == "win32":
        return [Path(os.environ.get("WINDIR", r"C:\Windows"), "Fonts"), home / "AppData/Local/Microsoft/Windows/Fonts"]
    if sys.platform == "darwin":
        return [Path("/System/Library/Fonts"), Path("/Library/Fonts"), home / "Library/Fonts"]
    return [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), home / ".fonts", home / ".local/share/fonts"]
