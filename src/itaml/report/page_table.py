"""The results table of a page: cells with the values they are sorted by; methods that do not compete stand apart."""

from __future__ import annotations

from dataclasses import dataclass

from itaml.report.ranking import Ranking
from itaml.report.table import Table, TableRow, cell, leads, make_table


@dataclass(frozen=True)
class Cell:
    """A cell; `value` is what rows are sorted by."""

    text: str
    value: float | None = None
    best: bool = False
    published: bool = False


@dataclass(frozen=True)
class Line:
    """A row; `series` is the number of its method's series in the charts."""

    label: str
    series: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class TableView:
    """What the template shows: two bodies, of methods that compete and of those that do not."""

    head: tuple[tuple[str, int], ...]  # names of columns, and 1 where more is better, -1 where less is
    ranked: tuple[Line, ...]
    unranked: tuple[Line, ...]
    notes: tuple[str, ...]


def table_view(ranking: Ranking) -> TableView:
    """Return the table of a benchmark, best first."""
    table = make_table(ranking.groups)
    count = len(ranking.competing)
    best = [*leads(table.columns, [row.cells for row in table.rows[:count]]), *[frozenset[str]()] * len(table.rows)]
    lines = [_line(table, row, series, best[series]) for series, row in enumerate(table.rows)]
    head = [("seeds", 1)]
    for column in table.columns:
        head.append((column.name, column.better or -1))
        if column.name in table.with_published:
            head.append(("published", column.better or -1))
    return TableView(tuple(head), tuple(lines[:count]), tuple(lines[count:]), table.notes)


def _line(table: Table, row: TableRow, series: int, best: frozenset[str]) -> Line:
    cells = [Cell(str(row.seeds), row.seeds)]
    for column in table.columns:
        stat = row.cells[column.name]
        cells.append(Cell(cell(stat, column), None if stat is None else stat.mean, best=column.name in best))
        if column.name in table.with_published:
            figure = row.published.get(column.name)
            text = "-" if figure is None else f"{100 * figure.value:.2f}"
            cells.append(Cell(text, None if figure is None else figure.value, published=True))
    return Line(row.label, series, tuple(cells))
