"""What the commands that start many runs share: progress, Ctrl-C, the printed table, failures at the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from itaml.cli.sweep_options import SweepOptions
    from itaml.experiment.sweep.executors.executor import Executor
    from itaml.experiment.sweep.job import Job
    from itaml.experiment.sweep.run_queue import RunQueue
    from itaml.report.table import Table


TEXT = "table"  # the format for people


def check_format(form: str, *, as_json: bool) -> None:
    """Refuse a format that a table cannot be printed in.

    Raises:
        UnknownNameError: there is none of that name.
        UsageError: JSON was asked for together with another format.
    """
    from itaml.errors import UnknownNameError, UsageError
    from itaml.registry import unknown
    from itaml.report.formats import FORMATS

    if form == "json":
        raise UsageError("for JSON use --json, not --format json")
    if form not in (TEXT, *FORMATS):
        raise UnknownNameError(unknown("format", form, (TEXT, *FORMATS)))
    if as_json and form != TEXT:
        raise UsageError(f"give either --json or --format {form}")


def run_batch(jobs: Sequence[Job], sweep: SweepOptions) -> None:
    """Run what is missing of a plan (see `run_jobs`)."""
    run_jobs(list(jobs), sweep, runs=sum(job.state == "waiting" for job in jobs))


def run_jobs(jobs: list[Job], sweep: SweepOptions, *, runs: int, more: Callable[[], bool] = lambda: False) -> None:
    """Run jobs and show the progress; on Ctrl-C end them and print how to continue.

    Args:
        jobs: all runs; `more` may add others.
        sweep: the options of the command.
        runs: how many are to be run at once at most.
        more: see `RunQueue.run`.

    Raises:
        UsageError: the runs cannot be computed here as they are to be computed.
        InterruptedRunError: it was stopped.
    """
    from itaml.cli.batch_progress import Overview
    from itaml.data.root import data_root as find_root
    from itaml.errors import InterruptedRunError
    from itaml.experiment.sweep.run_queue import RunQueue

    with redirect_stdout(sys.stderr), _executor(sweep, runs) as executor:  # Ray prints the loss of workers
        queue = RunQueue(jobs, executor, data_root=find_root(sweep.data_root), force=sweep.force)
        with (
            _interruptible(queue) as printers,
            Overview(queue.jobs, live=sys.stderr.isatty() and not sweep.silent, quiet=sweep.silent) as view,
        ):
            printers.append(view.say)
            queue.run(on_step=view.update, more=more)
    if queue.stopping:
        done = sum(job.state in ("kept", "done") for job in queue.jobs)
        raise InterruptedRunError(
            f"stopped; {done} of {len(queue.jobs)} runs are finished and the others are saved: "
            "repeat the command to continue"
        )


@contextmanager
def _executor(sweep: SweepOptions, runs: int) -> Iterator[Executor]:
    """Open the executor and check that it can compute as it is to; a cluster is not needed for no runs."""
    from itaml.experiment.sweep.executors import EXECUTORS, open_executor

    executor = open_executor(
        sweep.executor if runs or sweep.executor not in EXECUTORS else "local",
        runs=runs,
        limit=sweep.jobs,
        threads=sweep.threads,
        ray_address=sweep.ray_address,
    )
    try:
        if runs:
            executor.check(sweep.compute())  # one error rather than one for each run
        yield executor
    finally:
        executor.close()


@contextmanager
def _interruptible(queue: RunQueue) -> Iterator[list[object]]:
    """Let the first Ctrl-C end the jobs after their epochs, and the second at once; never leave a job behind."""
    printers: list[object] = []

    def on_signal(number: int, frame: object) -> None:
        if queue.stopping:
            queue.kill()
            return
        for print_line in printers:
            print_line("stopping after the current epochs; Ctrl-C again to stop at once")  # type: ignore[operator]
        queue.stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield printers
    except BaseException:
        queue.kill()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_table(table: Table, form: str, *, as_json: bool) -> None:
    """Print a table as text with its notes, as JSON, or in another of the formats."""
    from itaml.cli.tables import Best, print_notes, print_table
    from itaml.report.formats import written
    from itaml.report.table import cells_of

    if as_json or form != TEXT:
        print(written(table, "json" if as_json else form))
        return
    head, *rows = cells_of(table, Best)
    print_table(head, rows)
    print_notes(table.notes)


def report_failures(jobs: Sequence[Job], problems: Sequence[str]) -> None:
    """Say at the end which runs failed, or are not in the table, and exit with 1 if any."""
    from itaml.cli.formatting import printable

    failed = [job for job in jobs if job.state == "failed"]
    for job in failed:
        print(f"failed: {job.name}: {printable(str(job.error))}", file=sys.stderr)
    for problem in problems:
        print(f"not in the table: {printable(problem)}", file=sys.stderr)
    if failed or problems:
        raise typer.Exit(1)
