"""Print constraints with the lowest versions that pyproject.toml allows, for `make test-lowest`.

usage: python tools/lowest_versions.py [--extras report,pandas] [--newest torch]

Packages named by --newest keep their newest version: an old torch is large, and may have no build for this Python.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?P<kind>>=|==)\s*(?P<version>[0-9][\w.]*)")


def lowest(requirements: Iterable[str], *, newest: Iterable[str] = ()) -> list[str]:
    """Return a line `name==version` for each requirement that names its lowest version.

    Raises:
        SystemExit: a requirement names none.
    """
    lines = []
    for requirement in requirements:
        found = REQUIREMENT.match(requirement)
        if found is None:
            sys.exit(f"{requirement!r} names no lowest version")
        if found["name"] not in set(newest):
            lines.append(f"{found['name']}=={found['version']}")
    return lines


def main() -> None:
    """Print the constraints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default="")
    parser.add_argument("--newest", default="none")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in filter(None, arguments.extras.split(",")):
        wanted += project["optional-dependencies"][extra]
    print("\n".join(lowest(wanted, newest=arguments.newest.split(","))))


if __name__ == "__main__":
    main()
