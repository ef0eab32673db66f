"""The table of a comparison: one row per method, one column per metric, published figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from itaml.experiment.result import Result
from itaml.metrics.metric import Metric
from itaml.metrics.metric_registry import metrics
from itaml.report import published
from itaml.report.summary import Group, Stat

Number = Callable[[Result], float | None]
Cells = Mapping[str, Stat | None]  # a row's numbers by the names of their columns


@dataclass(frozen=True)
class Column:
    """How a number is shown, and whether more of it is better."""

    name: str
    better: int = 1  # 1: more, -1: less, 0: neither
    scale: float = 100.0
    digits: int = 2


@dataclass(frozen=True)
class TableRow:
    """A group's numbers by column, and those that were published, by column too."""

    label: str
    seeds: int
    cells: Cells
    published: Mapping[str, published.Figure]
    best: frozenset[str]
    is_bound: bool = False


@dataclass(frozen=True)
class Table:
    """The comparison on one benchmark; `subject` is what a row stands for, `remarks` are notes of its own."""

    benchmark: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    subject: str = "method"
    remarks: tuple[str, ...] = ()

    @property
    def with_published(self) -> tuple[str, ...]:
        """The columns that somebody published a figure for."""
        return tuple(c.name for c in self.columns if any(c.name in row.published for row in self.rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read the table."""
        best = "; the best is in bold, or has a star" if any(row.best for row in self.rows) else ""
        notes = [f"Per cent after the last task, mean ± standard deviation over seeds{best}.", *self.remarks]
        if any(row.is_bound for row in self.rows):
            notes.append("joint keeps all data: it is an upper bound and does not count for the best.")
        figures = {figure for row in self.rows for figure in row.published.values()}
        for source in sorted({figure.source for figure in figures}):
            notes_of_source = sorted({f"{f.method}: {f.note}" for f in figures if f.source == source and f.note})
            notes.append(
                f"Published figures: {source}{' (' + '; '.join(notes_of_source) + ')' if notes_of_source else ''}."
            )
        return tuple(notes)


def columns(p: int) -> dict[Column, Number]:
    """Return the columns of a benchmark with continua of p samples, and where their numbers are in a result."""
    return {_column(metric): metric.value_of for metric in metrics({1, p})}


def _column(metric: Metric) -> Column:
    better = {"higher": 1, "lower": -1, "neither": 0}[metric.direction]
    return Column(metric.name, better, metric.format.scale, metric.format.digits)


def make_table(groups: Sequence[Group]) -> Table:
    """Put the groups of one benchmark into a table."""
    p = max(group.first.p for group in groups)
    everything = columns(p)
    chosen = {column: number for column, number in everything.items() if any(one.stat(number) for one in groups)}
    cells = [{column.name: group.stat(number) for column, number in chosen.items()} for group in groups]
    won = _leads_by_unit(tuple(chosen), groups, cells)
    rows = []
    for index, (one, row) in enumerate(zip(groups, cells, strict=True)):
        figures = {
            f"class p={size}": published.figure(one.first.benchmark, one.first.method, p=size) for size in {1, p}
        }
        same = one.first.memory_unit == "images"  # as everything that was published
        known = {name: figure for name, figure in figures.items() if figure is not None and same}
        rows.append(TableRow(one.label, len(one.runs), row, known, won[index], one.is_bound))
    return Table(groups[0].first.benchmark, tuple(chosen), tuple(rows))


def _leads_by_unit(columns: Sequence[Column], groups: Sequence[Group], cells: Sequence[Cells]) -> list[frozenset[str]]:
    """Return what each group is best in, among those whose memory is counted in the same unit; bounds in nothing."""
    won: list[frozenset[str]] = [frozenset()] * len(groups)
    for unit in ("images", "bytes"):
        rows = [i for i, one in enumerate(groups) if one.first.memory_unit == unit and not one.is_bound]
        for index, names in zip(rows, leads(columns, [cells[i] for i in rows]), strict=True):
            won[index] = names
    return won


def leads(columns: Sequence[Column], rows: Sequence[Cells]) -> list[frozenset[str]]:
    """Return for each row the columns in which none is better; a row alone is the best of nothing."""
    best = {column: _best(column, [row[column.name] for row in rows]) for column in columns}
    return [frozenset(c.name for c in columns if _mean(row[c.name], c) == best[c] is not None) for row in rows]


def _mean(stat: Stat | None, column: Column) -> float | None:
    """Return the mean as it is printed, so that what reads the same is bold alike."""
    return None if stat is None else round(column.scale * stat.mean, column.digits)


def _best(column: Column, stats: Sequence[Stat | None]) -> float | None:
    means = [mean for stat in stats if (mean := _mean(stat, column)) is not None]
    if not column.better or len(means) < 2:
        return None
    return max(means) if column.better > 0 else min(means)


def cell(stat: Stat | None, column: Column) -> str:
    """Return `97.95 ± 0.12`, without a standard deviation for one seed, or a dash."""
    if stat is None:
        return "-"
    mean = f"{column.scale * stat.mean:.{column.digits}f}"
    return mean if stat.std is None else f"{mean} ± {column.scale * stat.std:.{column.digits}f}"


def cells_of(table: Table, bold: Callable[[str], str] = str) -> list[list[str]]:
    """Return the table as text, its head first, with the published columns beside ours."""
    names = [table.subject, "seeds"]
    for column in table.columns:
        names += [column.name, f"{column.name} published"] if column.name in table.with_published else [column.name]
    grid = [names]
    for row in table.rows:
        cells = [row.label, str(row.seeds)]
        for column in table.columns:
            text = cell(row.cells[column.name], column)
            cells.append(bold(text) if column.name in row.best else text)
            if column.name in table.with_published:
                figure = row.published.get(column.name)
                cells.append("-" if figure is None else f"{100 * figure.value:.2f}")
        grid.append(cells)
    return grid
