"""`itaml doctor`: what this machine has, what is used of it and why, and what to do about problems."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from itaml.cli.options import Json

if TYPE_CHECKING:
    from itaml.doctor.diagnosis import Diagnosis

TELLING = ("avx2", "avx512_f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "neon", "bf16", "sve")


def command(as_json: Json = False) -> None:
    """Show what this machine has and what is used of it, with advice for each problem.

    The exit code is 0 if a model can be trained here. The first call trains a small network for a moment in fp32 and
    bf16 to see which is faster.
    """
    from itaml.doctor.diagnosis import examine

    found = examine()
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        _print(found)
    if not found.can_train:
        raise typer.Exit(1)


def _print(found: Diagnosis) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(found):
        table.add_row(name, Text(value))
    console.print(table)
    console.print()
    for problem in found.problems:
        console.print(Text(f"{'error' if problem.fatal else 'note'}: {problem.problem}", style="bold"))
        console.print(Text(f"  {problem.advice}"))
    console.print(Text("a model can be trained here" if found.can_train else "no model can be trained here"))


def _rows(found: Diagnosis) -> Iterator[tuple[str, str]]:
    from itaml._version import __version__

    used = found.computing
    yield "itaml", __version__
    yield "Python", f"{platform.python_version()}, {platform.system()} {platform.release()} {platform.machine()}"
    yield "torch", used.torch if used else f"cannot be imported: {found.torch_error}"
    yield "CPU", f"{found.cpu}, {found.cores} cores"
    if used:
        features = [name for name in TELLING if name in used.features]
        yield "CPU features", ", ".join(features) or "none that matter here"
        yield "device", f"{used.device} (of {', '.join(used.devices)})"
        yield "precision", f"{used.precision}: {used.why}"
        yield "probe", _probe(found)
        yield "threads", str(used.threads)
    for extra in found.extras:
        state = "installed" if extra.installed else f"pip install 'itaml[{extra.name}]'"
        yield f"extra {extra.name}", f"{extra.gives}: {state}" if extra.gives else state
    for folder in found.folders:
        yield folder.what, f"{folder.path} ({folder.free_bytes / 1e9:.1f} GB free)"
    present = [one.name for one in found.data if one.present]
    yield "data sets", f"{', '.join(present) or 'none'} (`itaml data list` shows all {len(found.data)})"


def _probe(found: Diagnosis) -> str:
    probe = found.computing.probe if found.computing else None
    if probe is None:
        return "not needed"
    ratio = "" if probe["ratio"] is None else f", ratio {probe['ratio']:.2f}"
    return f"{probe['outcome']}{ratio}; kept in {probe['file']}"
