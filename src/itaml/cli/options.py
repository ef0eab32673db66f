"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from itaml.errors import UsageError

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", help="Folder of the data sets; ITAML_DATA or the user's cache folder by default."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one setting of the method, such as lr=0.05. Repeatable."),
]
Recipe = Annotated[
    str | None,
    typer.Option("--recipe", help="Train as this recipe says, whatever the preset says; see `itaml list recipes`."),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=4096, help="CPU threads to use; all by default, one for networks without convolutions."),
]
ThreadsEach = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="CPU threads of each run; by default its share of the cores."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[
    str,
    typer.Option(help="auto, fp32 or bf16; on a CPU auto is fp32 unless bf16 was found to be faster (itaml doctor)."),
]
Compile = Annotated[
    bool, typer.Option("--compile", help="Use torch.compile for training: a slow start, faster in long runs.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of all runs.")]
SeedList = Annotated[str, typer.Option("--seeds", help="Seeds, such as 0,1,2.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Parallel runs; one per core by default.")]
Format = Annotated[str, typer.Option("--format", help="table, markdown, csv or latex.")]
ForceAll = Annotated[bool, typer.Option("--force", help="Delete existing runs and start again.")]


def parse_list(text: str) -> list[str]:
    """Read `a,b,c`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_seeds(text: str) -> list[int]:
    """Read `0,1,2`.

    Raises:
        UsageError: it is not a list of numbers.
    """
    try:
        return [int(part) for part in parse_list(text)]
    except ValueError:
        raise UsageError(f"seeds are numbers such as 0,1,2, not {text!r}") from None


def parse_split(text: str) -> tuple[int, ...]:
    """Read `4,3,2,1`.

    Raises:
        UsageError: it is not a list of numbers.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"a split is a list of numbers such as 4,3,2,1, not {text!r}") from None


def set_threads(threads: int | None, *, backbone: str | None = None) -> None:
    """Set torch's threads; by default one for a network without convolutions, whose steps are too short to share.

    Sharing them gains little on an idle machine and costs a multiple on a busy one, where threads wait for each other.
    """
    if threads is None and backbone is not None:
        from itaml.models import backbone_traits

        threads = None if backbone_traits(backbone).convolutional else 1
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
