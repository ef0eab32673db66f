"""Run the attacks at full size, print a table and write it as JSON.

    python -m attacks [--only "images pickles"] [--share 0.1] [--jobs 2] [--output FILE]

Attacks that were not run keep the figures that the file has of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import platform
import random
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attacks.harness import Attack, Jobs
from itaml.modelstore import shared_tables

OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.json"
TABLE = 256  # bytes from which on a table has files: the small models of the attacks have some too


class Entry(NamedTuple):
    """An attack at full size."""

    module: str
    trials: int
    title: str


ATTACKS = {
    "kill_learn": Entry("kill_learn", 500, "kills of `learn` (SIGKILL)"),
    "kill_run": Entry("kill_run", 200, "kills of `run` (SIGKILL)"),
    "flip_model": Entry("flip_model", 2000, "damaged files of a model"),
    "flip_run": Entry("flip_run", 500, "damaged files of a run"),
    "images": Entry("images", 10_000, "mutated images"),
    "command_lines": Entry("command_lines", 3000, "random command lines"),
    "pickles": Entry("pickles", 400, "malicious pickles"),
    "archives": Entry("archives", 250, "hostile idx, MATLAB and tar files"),
    "model_folders": Entry("model_folders", 500, "hostile model folders"),
    "disk_faults": Entry("disk_faults", 10**6, "ENOSPC, EIO, EACCES at every file operation"),
    "long_life": Entry("long_life", 100, "steps of a life of 100 learns with kills and predictions"),
    "processes": Entry("processes", 60, "operations of 10 processes at once in 60 seconds"),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names of attacks; all by default")
    parser.add_argument("--share", type=float, default=1.0, help="share of the trials; the file is written for 1 only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, for attacks that can be divided")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    Jobs.count = given.jobs
    shared_tables.SMALLEST = TABLE
    logging.getLogger("itaml").setLevel(logging.ERROR)
    known: dict[str, Any] = json.loads(given.output.read_text())["attacks"] if given.output.exists() else {}
    failed = False
    for name in given.only.split() or ATTACKS:
        row = run(name, given.share, given.seed)
        failed = failed or bool(row["failures"])
        known[name] = row
        if given.share == 1.0:
            write(given.output, known)
        print(f"{row['title']:50} {row['trials']:>7,} trials {row['failures']:>4} failures {row['seconds']:>6.0f} s")
        for failure in row["failed"][:20]:
            print(f"    {failure}")
        sys.stdout.flush()
    return int(failed)


def run(name: str, share: float, seed: int) -> dict[str, Any]:
    """Run one attack in a folder of its own."""
    entry = ATTACKS[name]
    attack: Attack = importlib.import_module(f"attacks.{entry.module}").attack
    start, home = time.monotonic(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        tally = attack(max(1, int(entry.trials * share)), Path(folder), random.Random(f"{seed} {name}"))
        os.chdir(home)
    return {
        "title": entry.title,
        "trials": tally.trials,
        "failures": len(tally.failures),
        "outcomes": dict(sorted(tally.outcomes.items())),
        "failed": tally.failures[:100],
        "seconds": round(time.monotonic() - start, 1),
    }


def write(path: Path, known: dict[str, Any]) -> None:
    """Write what is known of all attacks."""
    packages = ("torch", "numpy", "pillow", "safetensors", "typer")
    environment = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    rows = {name: known[name] for name in ATTACKS if name in known}
    path.write_text(json.dumps({"format": 1, "environment": environment, "attacks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
