"""`itaml data list` and `itaml data fetch NAME`: which data sets are on disk, and downloading them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from itaml.cli.options import DataRoot, Json

app = typer.Typer(help="List the data sets on disk, and download missing ones.", no_args_is_help=True)


@app.command("list")
def list_(data_root: DataRoot = None, as_json: Json = False) -> None:
    """List every data set: whether it is on disk, where, and what is missing."""
    from itaml.data.fetch import DataStatus, status
    from itaml.data.root import data_root as resolve

    root, states = resolve(data_root), status(data_root)
    if as_json:
        sets = [_plain(asdict(state)) | {"present": state.present} for state in states]
        print(json.dumps({"root": str(root), "data_sets": sets}, indent=2))
        return

    def describe(state: DataStatus) -> str:
        if state.present:
            return str(state.found[0].parent)
        advice = f"use `itaml data fetch {state.name}`" if state.fetchable else state.note
        return f"missing {listed(state.missing, limit=1)}; {advice}"

    from itaml.cli.formatting import listed
    from itaml.cli.tables import print_table

    print(f"data root: {root}\n")
    rows = [("yes" if s.present else "no", s.name, s.summary, describe(s)) for s in states]
    print_table(("present", "name", "data set", "where"), rows, align="llww")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of a data set; see `itaml data list`.")],
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Download a data set, verify it, and put it into the data root."""
    from itaml.data.fetch import fetch as download

    if as_json:
        print(json.dumps({"name": name, "files": [str(path) for path in download(name, data_root)]}))
        return
    with _Bar(name) as bar:
        paths = download(name, data_root, progress=bar)
    print(f"{name}: {', '.join(map(str, paths))}")


class _Bar:
    """A rich progress bar that pooch can drive."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._bar = self._progress.add_task(name, total=None, visible=False)
        self.total = 0

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, count: int) -> None:
        """Note that `count` more bytes arrived."""
        self._progress.update(self._bar, advance=count, total=self.total or None, visible=True)

    def reset(self) -> None:
        """Go back to nothing."""
        self._progress.reset(self._bar)

    def close(self) -> None:
        """Leave the bar to the next file."""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
