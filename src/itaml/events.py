"""What happens while something learns, as typed, frozen records.

Those of a whole run are in `itaml.experiment.event_log`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain values, with its kind under `event`."""
        return {"event": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class TaskStarted(Event):
    """A learner begins a task, or continues it at `epoch`."""

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


Callback = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing."""
