"""`itaml compare`: many methods and seeds on one benchmark, in parallel, and the table of their results."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from itaml.cli.options import DataRoot, Device, Precision, Quiet, Set

if TYPE_CHECKING:
    from itaml.report.result import Collection
    from itaml.report.table import Table
    from itaml.run.compare import Job, Pool

FIGURE5 = ("itaml:best", "itaml:paper", "reptile", "fomaml", "joint")


def command(
    benchmark: Annotated[str, typer.Argument(help="What to run on; `itaml list benchmarks` shows them.")],
    *,
    methods: Annotated[
        str | None, typer.Option(help="Methods such as itaml,replay; itaml:paper names a preset; all is all of them.")
    ] = None,
    presets: Annotated[str, typer.Option(help="Presets to run of each method that has them.")] = "best",
    seeds: Annotated[str, typer.Option(help="Seeds, such as 0,1,2.")] = "0",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time; else one a processor.")
    ] = None,
    overrides: Set = None,
    data_root: DataRoot = None,
    runs: Annotated[Path, typer.Option(help="Folder that runs are kept in.")] = Path("runs"),
    form: Annotated[str, typer.Option("--format", help="table, markdown, csv, latex or json.")] = "table",
    figure5: Annotated[
        bool, typer.Option("--figure5", help="Compare as the paper's Figure 5 does, and draw its three panels.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete the runs that are there and start again.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
) -> None:
    """Run what is missing of a comparison, and print its table: mean and deviation over seeds.

    Finished runs are kept and interrupted ones go on, so the same command can be given again at any time.
    """
    from itaml.config import Compute, build, parse_overrides
    from itaml.data.root import data_root as find_root
    from itaml.errors import UnknownNameError
    from itaml.registry import unknown
    from itaml.report.formats import FORMATS
    from itaml.run.compare import Pool, plan, processors

    if form not in FORMATS:
        raise UnknownNameError(unknown("format", form, FORMATS))
    wanted = plan(
        benchmark,
        methods=_words(methods) if methods else _default_methods(figure5),
        presets=_words(presets),
        seeds=_seeds(seeds),
        runs=runs,
        overrides=parse_overrides(overrides or []),
        force=force,
        compute=build(Compute, {"device": device, "precision": precision}, what="option"),
    )
    missing = sum(job.state == "waiting" for job in wanted)
    parallel = max(1, min(jobs or processors(), missing))
    pool = Pool(wanted, parallel=parallel, data_root=find_root(data_root), force=force)
    _run(pool, quiet=quiet)
    collection = _print_table(wanted, form)
    if figure5 and collection.results:
        path = _draw_figure5(collection, wanted[0].folder.parent)
        if not quiet:
            print(f"Figure 5 is in {path}", file=sys.stderr)
    _report_failures(wanted, collection)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _default_methods(figure5: bool) -> Sequence[str]:
    """Return the methods of Figure 5 that there are; without it, iTAML and what it is always compared with."""
    from itaml.learners import LEARNERS

    wanted = FIGURE5 if figure5 else ("itaml", "replay", "finetune", "joint")
    return [word for word in wanted if word.partition(":")[0] in LEARNERS.names()]


def _seeds(text: str) -> list[int]:
    from itaml.errors import UsageError

    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise UsageError(f"seeds are numbers such as 0,1,2, not {text!r}") from None


def _run(pool: Pool, *, quiet: bool) -> None:
    """Run what is missing, with a view of it; on Ctrl-C end the jobs and say how to go on."""
    from itaml.cli.overview import Overview
    from itaml.errors import InterruptedRunError

    with _interruptible(pool) as say, Overview(pool.jobs, live=sys.stderr.isatty() and not quiet, quiet=quiet) as view:
        say.append(view.say)
        pool.run(look=view.look)
    if pool.stopping:
        done = sum(job.state in ("kept", "done") for job in pool.jobs)
        raise InterruptedRunError(
            f"stopped; {done} of {len(pool.jobs)} runs are finished and the others are saved: "
            "give the same command again to go on"
        )


@contextmanager
def _interruptible(pool: Pool) -> Iterator[list[object]]:
    """Let the first Ctrl-C end the jobs after their epochs, and the second at once; never leave a job behind."""
    say: list[object] = []

    def ask(number: int, frame: object) -> None:
        if pool.stopping:
            pool.kill()
            return
        for listener in say:
            listener("stopping after the epochs under way; Ctrl-C again to stop at once")  # type: ignore[operator]
        pool.stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield say
    except BaseException:
        pool.kill()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_table(jobs: Sequence[Job], form: str) -> Collection:
    from itaml.report.formats import written
    from itaml.report.result import collect
    from itaml.report.summary import group
    from itaml.report.table import make_table

    collection = collect([job.folder for job in jobs if job.state in ("kept", "done")])
    if collection.results:
        table = make_table(group(collection.results))
        if form == "table" and sys.stdout.isatty():
            _print_rich(table)
        else:
            print(written(table, form))
        if form == "table":
            print("\n" + "\n".join(table.notes))
    return collection


def _print_rich(table: Table) -> None:
    """Print the table with the best in bold; a row a protocol where the terminal is too narrow for a row a method."""
    from rich.console import Console
    from rich.text import Text

    from itaml.report.table import cells_of

    console, mark = Console(highlight=False), "\N{ZERO WIDTH SPACE}"
    grid = cells_of(table, lambda text: mark + text)
    if sum(_widths(grid)) > console.width:
        grid = [list(column) for column in zip(*grid, strict=True)]
    widths = _widths(grid)
    for row in grid:
        line = Text()
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            words = cell.removeprefix(mark)
            padded = words.rjust(width) if index else words.ljust(width)
            line.append(padded, style="bold" if cell.startswith(mark) else "")
        console.print(line, soft_wrap=True)


def _widths(grid: list[list[str]]) -> list[int]:
    """Return how wide each column is, with two spaces before all but the first."""
    return [
        max(len(row[index].lstrip("\N{ZERO WIDTH SPACE}")) for row in grid) + (2 if index else 0)
        for index in range(len(grid[0]))
    ]


def _draw_figure5(collection: Collection, folder: Path) -> Path:
    from itaml.report.drawing import to_svg
    from itaml.report.figures import figure5
    from itaml.report.summary import group
    from itaml.storage import write_atomically

    groups = group(collection.results)
    path = folder / "figure5.svg"
    write_atomically(path, to_svg(figure5(groups, max(one.first.p for one in groups)), page=False).encode())
    return path


def _report_failures(jobs: Sequence[Job], collection: Collection) -> None:
    """Say at the end which runs failed, and exit with 1 if any did."""
    failed = [job for job in jobs if job.state == "failed"]
    for job in failed:
        print(f"failed: {job.name}: {job.error}", file=sys.stderr)
    for problem in collection.problems:
        print(f"not in the table: {problem}", file=sys.stderr)
    if failed or collection.problems:
        raise typer.Exit(1)
