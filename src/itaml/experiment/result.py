"""`Result`: the numbers of a finished run. `result.json` is written and read by this class alone.

Fractions are between 0 and 1; `itaml.metrics.metric_registry` says what each number means. Importing this module
imports no torch.
"""

from __future__ import annotations

from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from itaml.errors import CheckpointError, DataError, MissingExtraError
from itaml.metrics.metric import PERCENT, Metric
from itaml.metrics.metric_registry import metrics
from itaml.migration import migrate_result
from itaml.safe_files import read_json, write_json

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
NAME = "result.json"
Fraction = Annotated[float, Field(ge=0, le=1)]
Square = list[list[Fraction | None]]


class Record(BaseModel):
    """Base of all parts: frozen; fields that a newer version added are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, populate_by_name=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as they are in the file."""
        return self.model_dump(mode="json", by_alias=True, exclude={"path"})


class Accuracy(Record):
    """Class and task accuracy with continua of one size."""

    classes: Annotated[Fraction, Field(alias="class")]
    task: Fraction | None = None


class CurvePoint(Accuracy):
    """The same with `bound`, the task accuracy that Algorithm 4 predicts."""

    bound: Fraction | None = None


class TaskRow(Record):
    """Numbers after one task, on everything seen so far."""

    index: int
    classes: list[str]
    epochs: int | None = None  # None in files of older versions
    train_seconds: float = 0.0
    peak_memory_mb: float | None = None
    continuum: dict[int, Accuracy]  # by size of continua
    task_aware: Fraction | None = None
    no_update: Fraction | None = None
    class_by_task: dict[int, list[Fraction]] = {}  # class accuracy on each task's images, by size of continua
    measures: dict[str, float | None] = {}  # what metrics measured of their own, by `Metric.key`


class Final(Record):
    """Numbers after the last task."""

    continuum: dict[int, Accuracy]
    task_aware: Fraction | None = None
    no_update: Fraction | None = None
    average_incremental: dict[int, Fraction]
    forgetting: float
    forgetting_at: dict[int, float] = {}
    curve: dict[int, CurvePoint] = {}
    per_class: dict[str, Fraction] = {}
    task_confusion: list[list[int]] | None = None
    metrics: dict[str, float | None] = {}  # every metric but the costs, by `Metric.key`


class Result(Record):
    """A finished run."""

    format: int = FORMAT
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
    path: Path | None = None  # the file it was read from, or written to

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a run's result: its folder, or the `result.json` in it.

        Raises:
            DataError: there is none, or it is damaged, of another format or not a result at all.
        """
        file = _file_of(Path(path))
        value = _read(file)
        try:
            result = cls.model_validate({**migrate_result(value), "path": file})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise DataError(f"{file} is not a whole result: {where}: {first['msg'].lower()}") from error
        _check(result, file)
        return result

    def save(self, path: Path | str) -> Self:
        """Write the result to a file, or as `result.json` into a folder; return it with its path."""
        file = Path(path) / NAME if Path(path).is_dir() else Path(path)
        write_json(file, self.to_dict(), checksum=True)
        return self.model_copy(update={"path": file})

    @property
    def p(self) -> int:
        """The largest size of continua that was evaluated after every task."""
        return max(self.final.continuum)

    @property
    def memory_unit(self) -> str:
        """What the memory is counted in, `images` or `bytes`: different protocols, which are not compared."""
        return "bytes" if self.config.get("settings", {}).get("memory_bytes") else "images"

    @property
    def name(self) -> str:
        """The run in a few words."""
        unit = ", memory in bytes" if self.memory_unit == "bytes" else ""
        return f"{self.benchmark}, {self.method} ({self.preset}{unit}), seed {self.seed}"

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas table with one row per task and one column per metric; accuracies are fractions.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            frame: pd.DataFrame = import_module("pandas").DataFrame(self._rows())
        except ImportError as error:
            raise MissingExtraError("a data frame needs pandas: pip install 'itaml[pandas]'") from error
        return frame.set_index("tasks")

    @property
    def _after_tasks(self) -> list[Metric]:
        """The metrics that are known after each task."""
        return [metric for metric in metrics(self.final.continuum) if metric.after_task is not None]

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"tasks": row.index + 1, "classes": ", ".join(row.classes)}
            | {_column(metric): metric.after(row) for metric in self._after_tasks}
            for row in self.tasks
        ]

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per task, accuracies in per cent."""
        shown = self._after_tasks
        head = "".join(f"<th>{escape(name)}</th>" for name in ("tasks", "classes", *map(_column, shown)))
        body = ""
        for row in self.tasks:
            cells = [str(row.index + 1), ", ".join(row.classes)]
            cells += [metric.format.text(metric.after(row)) for metric in shown]
            body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        caption = f"{self.name}: accuracy in per cent on everything seen, after each task ({self.evaluated_on})"
        return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


load_result = Result.load


def _column(metric: Metric) -> str:
    """Return the name of a column: costs of one task have their field's name."""
    return metric.name if metric.format is PERCENT else metric.key


def _file_of(given: Path) -> Path:
    """Return the result file that a path stands for."""
    file = given / NAME if given.is_dir() else given
    if not file.exists():
        unfinished = given.is_dir() and (given / "config.json").is_file()
        why = "the run is not finished" if unfinished else f"there is no {NAME}" if given.is_dir() else "no such file"
        raise DataError(f"{given}: {why}")
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        value = read_json(file, what="a result of itaml")
    except CheckpointError as error:
        raise DataError(str(error)) from error
    if "format" not in value:
        raise DataError(f"{file} is not a result of itaml")
    if value["format"] != FORMAT:
        raise DataError(f"{file} has format {str(value['format'])[:20]}; this version of itaml reads format {FORMAT}")
    return value


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
