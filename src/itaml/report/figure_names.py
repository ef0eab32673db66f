"""`Collection`: the results below some paths, and what could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from itaml.errors import DataError
from itaml.experiment.result import NAME, Result, load_result


@dataclass(frozen=True)
class Collection:
    """Results that could be read, and a sentence for each that could not."""

    results: tuple[Result, ...]
    problems: tuple[str, ...]


def collect(paths: Sequence[Path | str]) -> Collection:
    """Read runs, result files, and folders of runs; one bad file does not hide the others."""
    results: dict[Path, Result] = {}
    problems: list[str] = []
    for path in paths:
        for member in _members(Path(path)):
            try:
                result = load_result(member)
            except DataError as error:
                problems.append(str(error))
                continue
            assert result.path is not None
            results.setdefault(result.path.resolve(), result)
    return Collection(tuple(results.values()), tuple(problems))


def _members(path: Path) -> list[Path]:
    """Return the runs that a path stands for: itself, or every run below it."""
    if not path.is_dir() or (path / NAME).exists() or (path / "config.json").exists():
        return [path]
    return sorted({file.parent for name in (NAME, "config.json") for file in path.rglob(name)}) or [path]
