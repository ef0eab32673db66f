"""What the commands that start many runs share: the view of them, Ctrl-C, the printed table, failures at the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from itaml.report.table import Table
    from itaml.run.pool import Job, Pool


def check_format(form: str) -> None:
    """Refuse a format that a table cannot be printed in.

    Raises:
        UnknownNameError: there is none of that name.
    """
    from itaml.errors import UnknownNameError
    from itaml.registry import unknown
    from itaml.report.formats import FORMATS

    if form not in FORMATS:
        raise UnknownNameError(unknown("format", form, FORMATS))


def run_jobs(
    jobs: Sequence[Job],
    *,
    parallel: int | None,
    data_root: Path | None,
    force: bool,
    quiet: bool,
    threads: int | None = None,
) -> None:
    """Run what is missing, with a view of it; on Ctrl-C end the jobs and say how to go on.

    Raises:
        SettingsError: this machine cannot compute as the runs are to be computed.
        InterruptedRunError: it was stopped.
    """
    from itaml.cli.overview import Overview
    from itaml.data.root import data_root as find_root
    from itaml.errors import InterruptedRunError
    from itaml.hardware.machine import cores
    from itaml.learners.compute import check_compute
    from itaml.run.pool import Pool

    missing = sum(job.state == "waiting" for job in jobs)
    if missing:
        check_compute(jobs[0].config.compute)  # one error rather than one for each run
    most = max(1, min(parallel or cores(), missing))
    pool = Pool(jobs, parallel=most, data_root=find_root(data_root), force=force, threads=threads)
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


def print_table(table: Table, form: str) -> None:
    """Print a table in one of the formats; in words for people also what has to be known to read it."""
    from itaml.report.formats import written

    if form == "table" and sys.stdout.isatty():
        _print_rich(table)
    else:
        print(written(table, form))
    if form == "table":
        print("\n" + "\n".join(table.notes))


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


def report_failures(jobs: Sequence[Job], problems: Sequence[str]) -> None:
    """Say at the end which runs failed, or are not in the table, and exit with 1 if any."""
    failed = [job for job in jobs if job.state == "failed"]
    for job in failed:
        print(f"failed: {job.name}: {job.error}", file=sys.stderr)
    for problem in problems:
        print(f"not in the table: {problem}", file=sys.stderr)
    if failed or problems:
        raise typer.Exit(1)
