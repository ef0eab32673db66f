"""Links between files of the repository, as links between pages of the site."""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path

from api_pages import page_of_module

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
ROOT_PAGES = {"REPRODUCIBILITY.md", "CHANGELOG.md", "CONTRIBUTING.md"}
OUTSIDE = ("http:", "https:", "mailto:", "#")


class Links:
    """The links of one page."""

    def __init__(self, page: str) -> None:
        """`page` is its path below `docs`; pages of `project` come from the root of the repository."""
        self._folder = posixpath.dirname(page)
        self._home = "" if page.startswith("project/") else posixpath.join("docs", self._folder)

    def rewrite(self, markdown: str) -> str:
        """Return the page with links that work in the site; a link to another file of the repository becomes text."""
        return LINK.sub(self._link, markdown)

    def _link(self, found: re.Match[str]) -> str:
        text, target = found.groups()
        if target.startswith(OUTSIDE):
            return found.group()
        path, hash_sign, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(self._home, path))
        if place.startswith("src/") and place.endswith(".py"):
            module = place.removeprefix("src/").removesuffix(".py").replace("/", ".")
            page = page_of_module(module)
            if page is not None:
                name = _name_at(ROOT / place, int(anchor.removeprefix("L"))) if anchor else ""
                return f"{text}({posixpath.relpath(page, self._folder or '.')}#{module}{name})"
        address = self._address(place)
        if address is None:
            return f"`{place}`" if not text.startswith("!") else ""
        relative = posixpath.relpath(address, self._folder or ".")
        return f"{text}({relative}{hash_sign}{anchor if place.endswith('.md') else ''})"

    def _address(self, place: str) -> str | None:
        """Return the page below `docs` that shows a file of the repository."""
        if place.startswith("docs/"):
            inside = place.removeprefix("docs/")
            return "methods/index.md" if inside == "methods" else inside
        if place == "README.md":
            return "index.md"
        if place in ROOT_PAGES:
            return f"project/{place}"
        return None


def _name_at(path: Path, line: int) -> str:
    """Return the class or function that begins at a line, as `.Class.function`; nothing if none does."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if node.lineno == line:
                return f".{node.name}"
            inner = [item for item in getattr(node, "body", ()) if isinstance(item, ast.FunctionDef)]
            for item in inner:
                if item.lineno == line:
                    return f".{node.name}.{item.name}"
    return ""


def root_page(path: Path) -> str:
    """Return the text of a file at the root of the repository."""
    return path.read_text(encoding="utf-8")
