"""The progress of many runs: one row per run on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from itaml.cli.formatting import count, percent
from itaml.cli.progress import duration
from itaml.cli.tables import rich_table
from itaml.experiment.event_reader import EventReader, RunState, follow_run
from itaml.experiment.sweep.job import Job

STYLES = {"waiting": "dim", "running": "", "kept": "dim", "done": "green", "failed": "red", "stopped": "yellow"}
EVERY = 15.0  # seconds between plain lines about progress


class Overview:
    """Follows the event logs of all jobs; use as a context manager and call `look` repeatedly."""

    def __init__(self, jobs: Sequence[Job], *, live: bool, quiet: bool) -> None:
        self.jobs, self.quiet = jobs, quiet  # jobs may be added while they are followed
        self.states: list[RunState] = []
        self._readers: list[EventReader] = []
        self._reported: list[str] = []
        self._begins: list[float] = []
        self._spoke = self._began = time.monotonic()
        self._follow()
        self._lasted: list[float] = []  # seconds of the runs that ended
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False) if live else None

    def __enter__(self) -> Self:
        missing = sum(job.state == "waiting" for job in self.jobs)
        kept = sum(job.state == "kept" for job in self.jobs)
        if self.jobs:
            self.say(f"{count(len(self.jobs), 'run')}: {kept} finished already, {missing} to do")
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if self.quiet:
            return
        if self._live:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _follow(self) -> None:
        """Follow the jobs that were added."""
        for job in self.jobs[len(self.states) :]:
            self.states.append(RunState())
            self._readers.append(follow_run(job.folder)[0])
            self._reported.append("waiting")
            self._begins.append(time.monotonic())

    def update(self) -> None:
        """Read what the runs wrote since the last look, and show it."""
        self._follow()
        for reader, state, job in zip(self._readers, self.states, self.jobs, strict=True):
            if job.state in ("running", "done", "kept"):
                for event in reader.read():
                    state.take(event)
        changed = [index for index, job in enumerate(self.jobs) if job.state != self._reported[index]]
        for index in changed:
            self._reported[index] = self.jobs[index].state
            if self._reported[index] == "running":
                self._begins[index] = time.monotonic()
            elif self._reported[index] == "done":
                self._lasted.append(time.monotonic() - self._begins[index])
        if self._live:
            self._live.update(self._view(), refresh=True)
        elif not self.quiet:
            self._lines(changed)

    def left(self) -> float | None:
        """Estimate the seconds until all runs are over; None while nothing is known."""
        now = time.monotonic()
        running = [
            (state.seconds_left, now - begin)
            for state, begin, job in zip(self.states, self._begins, self.jobs, strict=True)
            if job.state == "running"
        ]
        whole = [*self._lasted, *(seconds + left for left, seconds in running if left is not None)]
        if not whole:
            return None
        each = sum(whole) / len(whole)
        here = sum(max(0.0, each - seconds) if left is None else left for left, seconds in running)
        waiting = sum(job.state == "waiting" for job in self.jobs)
        return (here + waiting * each) / max(len(running), 1)

    def _view(self) -> RenderableType:
        table = rich_table(("run", "", "", "class accuracy", "time left"), align="llllr")
        for job, state in zip(self.jobs, self.states, strict=True):
            share = 1.0 if job.state in ("kept", "done") else state.share
            left = state.seconds_left if job.state == "running" else None
            table.add_row(
                Text(job.name),
                ProgressBar(total=1.0, completed=share, width=20),
                Text(_where(job, state), style=STYLES[job.state]),
                _accuracy(state),
                "" if left is None else duration(left),
            )
        return Group(table, Text(self._total(), style="dim"))

    def _total(self) -> str:
        over = sum(job.state not in ("waiting", "running") for job in self.jobs)
        left = self.left()
        line = f"{over} of {len(self.jobs)} runs, {duration(time.monotonic() - self._began)}"
        return line + ("" if left is None else f", about {duration(left)} left")

    def _lines(self, changed: Sequence[int]) -> None:
        """Print a line for each change of state, and the progress of all runs at intervals."""
        for index in changed:
            job = self.jobs[index]
            accuracy = _accuracy(self.states[index]) if job.state in ("done", "kept") else ""
            self.say(f"{job.name}: {job.state}{'  ' + accuracy if accuracy else ''}")
            self._spoke = time.monotonic()
        if time.monotonic() - self._spoke >= EVERY:
            self._spoke = time.monotonic()
            running = [(j, s) for j, s in zip(self.jobs, self.states, strict=True) if j.state == "running"]
            where = "; ".join(f"{job.name}: {_where(job, state)}" for job, state in running)
            self.say(f"{self._total()}: {where}")


def _where(job: Job, state: RunState) -> str:
    if job.state != "running":
        return job.state
    if not state.epochs:
        return "starting"
    return f"task {state.task + 1}/{state.tasks} epoch {state.epoch}/{state.epochs}"


def _accuracy(state: RunState) -> str:
    """Return class accuracies after the last task that was learned, by size of continua."""
    if not state.rows:
        return ""
    return "  ".join(f"p={p} {percent(at.classes, 2)}" for p, at in state.rows[-1].continuum.items())
