"""What happens during a run, as typed, frozen records: the event log and progress displays are made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain values, with its kind under `event`."""
        return {"event": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins, or goes on after an interruption."""

    benchmark: str
    method: str
    preset: str
    seed: int
    tasks: int
    resumed: bool


@dataclass(frozen=True)
class TaskStarted(Event):
    """A learner begins a task, or goes on with it at `epoch`."""

    task: int
    classes: tuple[str, ...]
    images: int
    epoch: int
    epochs: int


@dataclass(frozen=True)
class BatchDone(Event):
    """A training step was taken. Many; for live displays, never written to the log."""

    task: int
    epoch: int
    epochs: int
    done: int  # images of this epoch so far
    total: int  # images of an epoch
    seconds: float  # of this epoch so far


@dataclass(frozen=True)
class EpochDone(Event):
    """An epoch is over; `epoch` counts from 1 within the task, `step` from 1 within the run (0 outside a run)."""

    task: int
    epoch: int
    epochs: int
    loss: float
    images: int
    seconds: float
    lr: float
    step: int = 0


@dataclass(frozen=True)
class TaskDone(Event):
    """A task is learned and everything seen so far was evaluated (`row` is its entry in result.json)."""

    task: int
    row: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunDone(Event):
    """All tasks are learned (`final` is the part of that name in result.json)."""

    final: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
