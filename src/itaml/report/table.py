"""The table of a comparison: a row a method, a column a protocol, published figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from itaml.report import published
from itaml.report.result import Result
from itaml.report.summary import Group, Stat


@dataclass(frozen=True)
class Column:
    """A number of a result, and whether more of it is better; None of both if neither is."""

    name: str
    number: Callable[[Result], float | None]
    better: int  # 1: more, -1: less, 0: neither
    scale: float = 100.0
    digits: int = 2


@dataclass(frozen=True)
class Row:
    """A group's numbers by column, and those that were published, by column too."""

    label: str
    seeds: int
    cells: dict[str, Stat | None]
    published: dict[str, published.Figure]
    best: frozenset[str]
    is_bound: bool


@dataclass(frozen=True)
class Table:
    """The comparison on one benchmark."""

    benchmark: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def with_published(self) -> tuple[str, ...]:
        """The columns that somebody published a figure for."""
        return tuple(c.name for c in self.columns if any(c.name in row.published for row in self.rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read the table."""
        notes = ["Per cent after the last task, mean ± deviation over seeds; the best is in bold, or has a star."]
        if any(row.is_bound for row in self.rows):
            notes.append("joint keeps all data: it is an upper bound and does not count for the best.")
        figures = {figure for row in self.rows for figure in row.published.values()}
        for source in sorted({figure.source for figure in figures}):
            words = sorted({f"{f.method}: {f.note}" for f in figures if f.source == source and f.note})
            notes.append(f"Published figures: {source}{' (' + '; '.join(words) + ')' if words else ''}.")
        return tuple(notes)


def columns(p: int) -> tuple[Column, ...]:
    """Return the protocols of a benchmark with continua of p samples."""
    sizes = (1,) if p == 1 else (1, p)
    found = [Column(f"class p={size}", _class(size), 1) for size in sizes]
    found += [Column(f"task p={size}", _task(size), 1) for size in sizes]
    found += [
        Column("task-aware", lambda run: run.final.task_aware, 1),
        Column("no update", lambda run: run.final.no_update, 1),
    ]
    found += [Column(f"average p={size}", _average(size), 1) for size in sizes]
    found += [
        Column("forgetting", lambda run: run.final.forgetting, -1),
        Column("s/task", lambda run: sum(row.train_seconds for row in run.tasks) / len(run.tasks), 0, 1.0, 1),
    ]
    return tuple(found)


def _class(p: int) -> Callable[[Result], float | None]:
    return lambda run: run.final.continuum[p].classes if p in run.final.continuum else None


def _task(p: int) -> Callable[[Result], float | None]:
    return lambda run: run.final.continuum[p].task if p in run.final.continuum else None


def _average(p: int) -> Callable[[Result], float | None]:
    return lambda run: run.final.average_incremental.get(p)


def make_table(groups: Sequence[Group]) -> Table:
    """Put the groups of one benchmark into a table."""
    p = max(group.first.p for group in groups)
    chosen = columns(p)
    cells = [{column.name: group.stat(column.number) for column in chosen} for group in groups]
    best = {
        column.name: _best(column, [row[column.name] for row, g in zip(cells, groups, strict=True) if not g.is_bound])
        for column in chosen
    }
    rows = []
    for one, row in zip(groups, cells, strict=True):
        won = [c.name for c in chosen if not one.is_bound and _mean(row[c.name], c) == best[c.name] is not None]
        figures = {
            f"class p={size}": published.figure(one.first.benchmark, one.first.method, p=size) for size in {1, p}
        }
        known = {name: figure for name, figure in figures.items() if figure is not None}
        rows.append(Row(one.label, len(one.runs), row, known, frozenset(won), one.is_bound))
    return Table(groups[0].first.benchmark, chosen, tuple(rows))


def _mean(stat: Stat | None, column: Column) -> float | None:
    """Return the mean as it is printed, so that what reads the same is bold alike."""
    return None if stat is None else round(column.scale * stat.mean, column.digits)


def _best(column: Column, stats: Sequence[Stat | None]) -> float | None:
    means = [mean for stat in stats if (mean := _mean(stat, column)) is not None]
    if not column.better or len(means) < 2:
        return None
    return max(means) if column.better > 0 else min(means)


def cell(stat: Stat | None, column: Column) -> str:
    """Return `97.95 ± 0.12`, without a deviation for one seed, or a dash."""
    if stat is None:
        return "-"
    mean = f"{column.scale * stat.mean:.{column.digits}f}"
    return mean if stat.deviation is None else f"{mean} ± {column.scale * stat.deviation:.{column.digits}f}"


def cells_of(table: Table, bold: Callable[[str], str] = str) -> list[list[str]]:
    """Return the table as text, its head first, with the published columns beside ours."""
    names = ["method", "seeds"]
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
