"""`itaml report`: one HTML page about any number of runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import Json, Quiet

if TYPE_CHECKING:
    from itaml.report.figure_names import Collection


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, result.json files, or folders of runs.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Folder for every figure as SVG, PNG and PDF.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page: curves, matrices, tables, settings, and how to repeat each run.

    Runs that cannot be read are named on standard error; the others are reported, and the exit code is 1.
    """
    from itaml.cli.formatting import printable
    from itaml.errors import DataError
    from itaml.report.figure_names import collect
    from itaml.report.page import page
    from itaml.storage import write_atomically

    collection = collect(runs)
    for problem in collection.problems:
        print(f"not reported: {printable(problem)}", file=sys.stderr)
    if not collection.results:
        raise DataError("there is nothing to report")
    write_atomically(output, page(collection).encode("utf-8", "backslashreplace"))
    written = _figures(collection, figures) if figures is not None else 0
    _print(collection, output, figures, written, quiet=quiet, as_json=as_json)
    if collection.problems:
        raise typer.Exit(1)


def _print(
    collection: Collection, output: Path, figures: Path | None, written: int, *, quiet: bool, as_json: bool
) -> None:
    from itaml.cli.formatting import count

    if as_json:
        runs = [{"path": str(r.path), "benchmark": r.benchmark, "method": r.method} for r in collection.results]
        files = {"page": str(output), "figures": None if figures is None else str(figures), "figure_count": written}
        print(json.dumps({**files, "runs": runs, "problems": list(collection.problems)}))
    elif not quiet:
        also = f", and {count(written, 'figure')} in {figures}" if figures is not None else ""
        print(f"{count(len(collection.results), 'run')} reported in {output}{also}")


def _figures(collection: Collection, folder: Path) -> int:
    """Write every figure of the page to a folder; return how many."""
    from itaml.report.figure_files import figures
    from itaml.report.svg import write_figure

    charts = figures(collection)
    for name, chart in charts.items():
        write_figure(chart, folder / name)
    return len(charts)
