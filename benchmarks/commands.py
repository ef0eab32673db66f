"""The command that repeats each row of a table, from the settings that its result files hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from itaml.experiment.result import Result, load_result
from itaml.report.sentences import command

RESULTS = Path(__file__).resolve().parent / "results"
FOLDERS = (
    "mnist-5",
    "mnist-5-plain",
    "mnist-5-strong",
    "svhn10k-5-16px",
    "svhn10k-5-16px-plain",
    "cifar100-5",
    "cifar100-10",
    "cifar100-10-16px-plain",
    "cifar100-20",
    "tiny-imagenet-10",
    "digits",
    "digits-scores",
)


def repeating(results: Iterable[Result]) -> dict[str, list[int]]:
    """Return commands with `SEED` in place of the seed, and the seeds of each."""
    found: dict[str, list[int]] = {}
    for result in results:
        text = re.sub(r"--seed \d+", "--seed SEED", command(result))
        found.setdefault(text, []).append(result.seed)
    return found


def rows() -> list[list[str]]:
    """Return the rows of the table of commands: where the result stands, its row, its seeds, the command."""
    found = []
    for folder in FOLDERS:
        names = sorted({re.sub(r"-seed\d+$", "", path.stem) for path in (RESULTS / folder).glob("*-seed*.json")})
        for name in names:
            results = [load_result(path) for path in sorted((RESULTS / folder).glob(f"{name}-seed*.json"))]
            for text, seeds in repeating(results).items():
                found.append([folder, f"`{name}`", ", ".join(map(str, sorted(seeds))), f"`{text}`"])
    return found
