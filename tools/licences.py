"""Write docs/licences.md: the licence of every package that this one depends on, as the installed packages say.

usage: python tools/licences.py [--check]

With --check nothing is written, and the exit code says whether a dependency is missing from the document.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "licences.md"
HEAD = """# Licences of dependencies

`itaml` itself is under the Apache License 2.0. It contains no code of other packages; these are installed beside it.
The table is written by `python tools/licences.py` from the metadata of the installed packages. An extra is installed
when it is asked for.

| package | needed for | licence |
|---|---|---|
"""


def direct_dependencies() -> list[tuple[str, str]]:
    """Return (package, what it is needed for): `always`, or the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [(_name(requirement), "always") for requirement in project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        found += [(_name(requirement), extra) for requirement in requirements if _name(requirement) != "itaml"]
    return found


def licence_of(package: str) -> str:
    """Return the licence of an installed package in a few words."""
    try:
        about = metadata(package)
    except PackageNotFoundError:
        return "not installed here"
    if about["License-Expression"]:
        return about["License-Expression"]
    named = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    if named:
        return ", ".join(named)
    stated = " ".join((about["License"] or "").split())
    known = 0 < len(stated) <= 60 and stated != "UNKNOWN"
    return stated if known else "see the package"


def document() -> str:
    """Return the document."""
    uses: dict[str, list[str]] = {}
    for package, use in direct_dependencies():
        uses.setdefault(package, []).append(use)
    rows = [f"| {package} | {', '.join(use)} | {licence_of(package)} |" for package, use in sorted(uses.items())]
    return HEAD + "\n".join(rows) + "\n"


def missing() -> list[str]:
    """Return the dependencies that the document does not name."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return sorted({package for package, _ in direct_dependencies() if f"| {package} |" not in text})


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0]


def main() -> None:
    """Write the document, or check it."""
    if "--check" in sys.argv[1:]:
        sys.exit(f"run tools/licences.py: {', '.join(missing())}" if missing() else 0)
    DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
