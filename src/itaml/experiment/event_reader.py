"""Follow a run from outside, by its event log alone: what it is doing, how far it is, how long it still takes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from itaml.experiment.result import Final, TaskRow
from itaml.safe_files import JSON_LIMIT, open_regular, parse_json

MOST = 1_000_000  # tasks of a run, epochs of a task


class EventReader:
    """Reads the events that were appended to a log since the last look.

    A line that is still being written is left for the next look; a line that is not an event is passed over; a log that
    was deleted and begun again is read from its start.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._place = 0
        self._inode: int | None = None
        self.restarted = False

    def read(self) -> list[dict[str, Any]]:
        """Return the new events; none while there is no log."""
        try:
            with open_regular(self.path, limit=JSON_LIMIT, within=self.path.parent) as file:
                self._notice_restart(file.fileno())
                file.seek(self._place)
                data = file.read(JSON_LIMIT)
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._place += len(whole)
        return [event for line in whole.splitlines() if (event := _event(line)) is not None]

    def _notice_restart(self, handle: int) -> None:
        state = os.fstat(handle)
        self.restarted = self._inode is not None and (state.st_ino != self._inode or state.st_size < self._place)
        if self.restarted:
            self._place = 0
        self._inode = state.st_ino


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


@dataclass
class RunState:
    """Where a run is, made of its events one after another."""

    name: str = ""
    tasks: int = 0
    task: int = 0  # the one under way, from 0
    epoch: int = 0  # epochs of it that are done
    epochs: int = 0
    loss: float | None = None
    losses: list[float] = field(default_factory=list)  # of the task under way
    rows: list[TaskRow] = field(default_factory=list)
    final: Final | None = None
    epoch_seconds: float = 0.0  # smoothed
    changed: float = 0.0  # time of the last event

    @property
    def done(self) -> bool:
        """Whether the run ended."""
        return self.final is not None

    @property
    def share(self) -> float:
        """How much of the run is over, between 0 and 1, taking all tasks to be alike."""
        if self.done:
            return 1.0
        if not self.tasks:
            return 0.0
        here = self.epoch / self.epochs if self.epochs and len(self.rows) <= self.task else 0.0
        return min(1.0, (len(self.rows) + here) / self.tasks)

    @property
    def seconds_left(self) -> float | None:
        """How long the epochs that are left take at the present pace; None while that is not known."""
        if self.done:
            return 0.0
        if not self.epoch_seconds or not self.epochs:
            return None
        under_way = self.epochs - self.epoch if len(self.rows) <= self.task else 0
        later = self.tasks - max(self.task + 1, len(self.rows))
        return self.epoch_seconds * (under_way + later * self.epochs)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take over an event; kinds that are not known and events that are damaged are passed over."""
        before = dict(vars(self))
        try:
            self._take(event)
        except (KeyError, TypeError, ValueError, OverflowError):
            vars(self).update(before)

    def _take(self, event: Mapping[str, Any]) -> None:
        self.changed = _finite(event.get("time", self.changed))
        kind = event.get("event")
        if kind == "RunStarted":
            self.name = f"{event['benchmark']}, {event['method']} ({event['preset']}), seed {event['seed']}"
            self.tasks, self.final = _count(event["tasks"]), None
            if not event.get("resumed"):
                self.rows = []
        elif kind == "TaskStarted":
            self.task, self.epoch, self.epochs = (_count(event[name]) for name in ("task", "epoch", "epochs"))
            self.rows = self.rows[: self.task]  # a resumed run may learn again what it had not saved
            self.losses = []
        elif kind == "EpochDone":
            self.task, self.epoch, self.epochs = (_count(event[name]) for name in ("task", "epoch", "epochs"))
            self.loss, seconds = float(event["loss"]), _finite(event["seconds"])
            self.losses = [*self.losses, self.loss]
            self.epoch_seconds = seconds if not self.epoch_seconds else 0.7 * self.epoch_seconds + 0.3 * seconds
        elif kind == "TaskDone":
            self.rows = [*self.rows[: _count(event["task"])], TaskRow.model_validate(event["row"])]
        elif kind == "RunDone":
            self.final = Final.model_validate(event["final"])


def _count(value: Any) -> int:
    """Return a number of tasks or epochs; larger ones than any run has are as wrong as text."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError("not a count")
    return value


def _finite(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("not a time")
    return float(value)


def follow_run(folder: Path | str) -> tuple[EventReader, RunState]:
    """Return what is needed to follow the run in a folder."""
    return EventReader(Path(folder) / "events.jsonl"), RunState()
