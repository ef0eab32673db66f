"""A table as Markdown or LaTeX for documents, and as CSV or JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from itaml.report.table import Table, cells_of
from itaml.spreadsheet import safe_cell

FORMATS = ("markdown", "csv", "latex")  # besides JSON, which has a separate option


def written(table: Table, form: str) -> str:
    """Return the table in one of `FORMATS` or as `json`, without the last line break."""
    if form == "json":
        return _json(table)
    if form == "csv":
        return _csv(table)
    bold: dict[str, Callable[[str], str]] = {
        "markdown": lambda text: f"**{text}**",
        "latex": lambda text: f"\\textbf{{{text}}}",
    }
    grid = cells_of(table, bold[form])
    return _latex(grid, table) if form == "latex" else _markdown(grid, table)


def _markdown(grid: list[list[str]], table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"

    rule = ["---", *["---:"] * (len(grid[0]) - 1)]
    return "\n".join([line(grid[0]), line(rule), *map(line, grid[1:]), "", *table.notes])


def _latex(grid: list[list[str]], table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(cells).replace("±", "$\\pm$") + " \\\\"

    body = [[_tex(text) if "\\textbf" not in text else text for text in row] for row in grid]
    rows = [line(body[0]), "  \\midrule", *map(line, body[1:])]
    return "\n".join(
        [f"\\begin{{tabular}}{{l{'r' * (len(grid[0]) - 1)}}}", "  \\toprule", *rows, "  \\bottomrule", "\\end{tabular}"]
        + [f"% {note}" for note in table.notes]
    )


def _tex(text: str) -> str:
    for sign in "&%#_{}$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("~", "\\textasciitilde{}").replace("^", "\\textasciicircum{}")


def _csv(table: Table) -> str:
    """Write fractions: mean and standard deviation in columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = [table.subject, "seeds"]
    for column in table.columns:
        head += [column.name, f"{column.name} standard deviation"]
    writer.writerow([*head, *(f"{name} published" for name in table.with_published)])
    for row in table.rows:
        cells: list[Any] = [safe_cell(row.label), row.seeds]
        for column in table.columns:
            stat = row.cells[column.name]
            cells += ["", ""] if stat is None else [stat.mean, "" if stat.std is None else stat.std]
        figures = [row.published.get(name) for name in table.with_published]
        writer.writerow([*cells, *("" if figure is None else figure.value for figure in figures)])
    return out.getvalue().rstrip("\n")


def _json(table: Table) -> str:
    rows = [
        {
            table.subject: row.label,
            "seeds": row.seeds,
            "numbers": {name: None if stat is None else asdict(stat) for name, stat in row.cells.items()},
            "best": sorted(row.best),
            "published": {name: figure.model_dump(mode="json") for name, figure in row.published.items()},
        }
        for row in table.rows
    ]
    return json.dumps(
        {"benchmark": table.benchmark, "rows": rows, "notes": list(table.notes)}, indent=1, ensure_ascii=False
    )
