"""`Result`: a `result.json` read back, checked, with its numbers as attributes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from itaml.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
NAME = "result.json"
Fraction = Annotated[float, Field(ge=0, le=1)]
Square = list[list[Fraction | None]]


class _Record(BaseModel):
    """Base of all parts: frozen; fields that a newer version added are kept out of the way."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Accuracy(_Record):
    """Class and task accuracy with continua of one size; `bound` is what Algorithm 4 predicts for the task."""

    classes: Annotated[Fraction, Field(alias="class")]
    task: Fraction | None = None
    bound: Fraction | None = None


class TaskRow(_Record):
    """Numbers after one task, on everything seen so far."""

    index: int
    classes: list[str]
    train_seconds: float = 0.0
    peak_memory_mb: float | None = None
    continuum: dict[int, Accuracy]
    task_aware: Fraction | None = None
    no_update: Fraction | None = None


class Final(_Record):
    """Numbers after the last task."""

    continuum: dict[int, Accuracy]
    task_aware: Fraction | None = None
    no_update: Fraction | None = None
    average_incremental: dict[int, Fraction]
    forgetting: float
    forgetting_at: dict[int, float] = {}
    curve: dict[int, Accuracy] = {}
    per_class: dict[str, Fraction] = {}
    task_confusion: list[list[int]] | None = None


class Result(_Record):
    """A finished run. Fractions are between 0 and 1; every number's protocol is in docs/events.md and in the report."""

    format: int
    benchmark: str
    method: str
    preset: str
    seed: int
    evaluated_on: str = "test data"
    config: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    tasks: Annotated[list[TaskRow], Field(min_length=1)]
    final: Final
    accuracy_matrix: Square
    accuracy_matrices: dict[int, Square] = {}
    path: Path | None = None  # the file it was read from

    @property
    def p(self) -> int:
        """The largest size of continua that was evaluated after every task."""
        return max(self.final.continuum)

    @property
    def name(self) -> str:
        """The run in a few words."""
        return f"{self.benchmark}, {self.method} ({self.preset}), seed {self.seed}"

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas table with a row a task: accuracies as fractions, one column a protocol.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            frame: pd.DataFrame = import_module("pandas").DataFrame(self._rows())
        except ImportError as error:
            raise MissingExtraError("a data frame needs pandas: pip install 'itaml[pandas]'") from error
        return frame.set_index("tasks")

    def _rows(self) -> list[dict[str, Any]]:
        rows = []
        for row in self.tasks:
            cells: dict[str, Any] = {"tasks": row.index + 1, "classes": ", ".join(row.classes)}
            for p, at in row.continuum.items():
                cells |= {f"class p={p}": at.classes, f"task p={p}": at.task}
            cells |= {"task-aware": row.task_aware, "no update": row.no_update}
            rows.append(cells | {"train_seconds": row.train_seconds, "peak_memory_mb": row.peak_memory_mb})
        return rows

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row a task, in per cent."""
        rows = self._rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(name, value))}</td>" for name, value in row.items()) + "</tr>"
            for row in rows
        )
        caption = f"{self.name}: accuracy in per cent on everything seen, after each task ({self.evaluated_on})"
        return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if name in {"train_seconds", "peak_memory_mb"} else f"{100 * value:.2f}"
    return "-" if value is None else str(value)


def load_result(path: Path | str) -> Result:
    """Read a run's result: its folder, or the `result.json` in it.

    Raises:
        DataError: there is none, or it is damaged, of another format or not a result at all.
    """
    given = Path(path)
    file = given / NAME if given.is_dir() else given
    if not file.exists():
        unfinished = given.is_dir() and (given / "config.json").is_file()
        why = "the run is not finished" if unfinished else f"there is no {NAME}" if given.is_dir() else "no such file"
        raise DataError(f"{given}: {why}")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read, it is damaged or not JSON: {error}") from error
    if not isinstance(value, dict) or "format" not in value:
        raise DataError(f"{file} is not a result of itaml")
    if value["format"] != FORMAT:
        raise DataError(f"{file} has format {value['format']!r}; this version of itaml reads format {FORMAT}")
    try:
        result = Result.model_validate({**value, "path": file})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{file} is not a whole result: {where}: {first['msg'].lower()}") from error
    _check(result, file)
    return result


def _check(result: Result, file: Path) -> None:
    """Refuse a result whose parts do not fit together."""
    sizes = set(result.final.continuum)
    count = len(result.tasks)
    squares = [result.accuracy_matrix, *result.accuracy_matrices.values()]
    whole = (
        bool(sizes)
        and all(sizes <= set(row.continuum) for row in result.tasks)
        and sizes <= set(result.final.average_incremental)
        and all(len(square) == count and all(len(row) == count for row in square) for square in squares)
        and (result.final.task_confusion is None or len(result.final.task_confusion) == count)
    )
    if not whole:
        raise DataError(f"{file} is not a whole result: its tables do not fit its {count} tasks")


@dataclass(frozen=True)
class Collection:
    """Results that could be read, and a sentence for each that could not."""

    results: tuple[Result, ...]
    problems: tuple[str, ...]


def collect(paths: list[Path]) -> Collection:
    """Read runs, result files, and folders of runs; one bad file does not hide the others."""
    results: dict[Path, Result] = {}
    problems: list[str] = []
    for path in paths:
        for member in _members(path):
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
