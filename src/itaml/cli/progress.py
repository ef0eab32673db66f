"""The progress of training: a live bar on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from itaml.events import BatchDone, EpochDone, Event, TaskStarted
from itaml.experiment.event_log import TaskDone


class TimeLeft:
    """Estimates the seconds left of a task, and of the whole run, from the images trained on so far."""

    def __init__(self, tasks: int | None) -> None:
        self.tasks = tasks
        self._rate = 0.0
        self._images = 0

    def started(self, event: TaskStarted) -> None:
        """Set how many images an epoch of this task has."""
        self._images = event.images

    def rate(self, images: int, seconds: float) -> float:
        """Return images per second, smoothed."""
        if seconds > 0:
            now = images / seconds
            self._rate = now if not self._rate else 0.7 * self._rate + 0.3 * now
        return self._rate

    def left(self, *, task: int, epoch: int, epochs: int, done: int) -> float:
        """Return the seconds left of the run, assuming that later tasks are as large as this one."""
        here = (epochs - epoch) * self._images - done
        later = 0 if self.tasks is None else (self.tasks - task - 1) * epochs * self._images
        return (here + later) / self._rate if self._rate else 0.0


def duration(seconds: float) -> str:
    """Return seconds for people: 7 s, 3 min 05 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class _StatusColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("status", "")), style="dim")


class LearningProgress:
    """A callback that shows the progress of a run; use as a context manager.

    Args:
        tasks: how many tasks there are; None for a single learn, whichever task it is.
        live: draw a bar; otherwise print one line per epoch, at most one every few seconds.
    """

    EVERY = 5.0  # seconds between plain lines

    def __init__(self, tasks: int | None, *, live: bool) -> None:
        self.time = TimeLeft(tasks)
        self.tasks = tasks
        self._refreshes = False
        self.live = live
        self.console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), _StatusColumn())
        self._bars = Progress(*columns, console=self.console, transient=True) if live else None
        self._bar = self._bars.add_task("", total=1) if self._bars else None
        self._loss = float("nan")
        self._silent = 0.0

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        if self._bars:
            self._bars.console.print(line, highlight=False, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, TaskStarted):
            self.time.started(event)
            self._refreshes = not event.classes
        elif isinstance(event, BatchDone):
            self._batch(event)
        elif isinstance(event, EpochDone):
            self._loss = event.loss
            self._epoch(event)
        elif isinstance(event, TaskDone) and self._bars and self._bar is not None:
            self._bars.update(self._bar, description="", completed=0, status="")

    def _task(self, task: int) -> str:
        """Return which task this is: of how many in a run, its number in a model, or that known classes are learned."""
        if self.tasks is not None:
            return f"task {task + 1}/{self.tasks}"
        return "known classes" if self._refreshes else f"task {task + 1}"

    def _batch(self, event: BatchDone) -> None:
        if not self._bars or self._bar is None:
            return
        rate = event.done / event.seconds if event.seconds else 0.0
        if not self.time._rate:
            self.time.rate(event.done, event.seconds)
        left = self.time.left(task=event.task, epoch=event.epoch, epochs=event.epochs, done=event.done)
        loss = "" if self._loss != self._loss else f"loss {self._loss:.3f}  "
        self._bars.update(
            self._bar,
            description=f"{self._task(event.task)}  epoch {event.epoch + 1}/{event.epochs}",
            total=event.epochs * event.total,
            completed=event.epoch * event.total + event.done,
            status=f"{loss}{rate:,.0f} images/s  {duration(left)} left",
        )

    def _epoch(self, event: EpochDone) -> None:
        rate = self.time.rate(event.images, event.seconds)
        self._silent += event.seconds
        if self.live or (self._silent < self.EVERY and event.epoch != event.epochs):
            return
        self._silent = 0.0
        left = self.time.left(task=event.task, epoch=event.epoch, epochs=event.epochs, done=0)
        print(
            f"{self._task(event.task)}  epoch {event.epoch}/{event.epochs}  loss {event.loss:.3f}  "
            f"{rate:,.0f} images/s  {duration(left)} left",
            file=sys.stderr,
            flush=True,
        )
