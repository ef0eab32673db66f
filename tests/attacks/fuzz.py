"""Fuzz one parser with atheris, guided by coverage, for as long as wanted.

    cd tests && python -m attacks.fuzz pickle -max_total_time=60

`fuzz_targets.TARGETS` has the names. atheris is not among the development tools; it installs on Linux and macOS.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Import the parsers with instrumentation, and fuzz the one that is named first."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["itaml", "pickletools"]):
        targets = import_module("attacks.fuzz_targets")
    name = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(targets.seeds(name)):
            Path(folder, str(number)).write_bytes(data)
        atheris.Setup([*sys.argv, folder], lambda data: targets.check(name, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
