"""`itaml report`: one page about any number of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import Quiet

if TYPE_CHECKING:
    from itaml.report.result import Collection


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, result.json files, or folders of runs.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(help="Write every figure to this folder too, as SVG, PNG and PDF.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one self-contained page: curves, matrices, tables, settings, and how to repeat each run.

    A run that cannot be read is named, the others are reported all the same, and the exit code is 1.
    """
    from itaml.errors import DataError
    from itaml.report.page import page
    from itaml.report.result import collect
    from itaml.storage import write_atomically

    if figures is not None:
        from itaml.report.raster import check_extra

        check_extra()
    collection = collect(runs)
    for problem in collection.problems:
        print(f"not reported: {problem}", file=sys.stderr)
    if not collection.results:
        raise DataError("there is nothing to report")
    write_atomically(output, page(collection).encode())
    written = _figures(collection, figures) if figures is not None else 0
    if not quiet:
        also = f", and {written} figures in {figures}" if figures is not None else ""
        print(f"{len(collection.results)} runs reported in {output}{also}")
    if collection.problems:
        raise typer.Exit(1)


def _figures(collection: Collection, folder: Path) -> int:
    """Write every figure of the page, under names that say what it is; return how many."""
    from itaml.report.collection import figures
    from itaml.report.raster import write_figure

    drawings = figures(collection)
    for name, drawing in drawings.items():
        write_figure(drawing, folder / name)
    return len(drawings)
