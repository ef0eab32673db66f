"""The events of a run, and the event log: `events.jsonl` in the run's folder, one JSON object per line."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itaml.events import BatchDone, Event
from itaml.experiment.result import Final, TaskRow


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins, or continues after an interruption."""

    benchmark: str
    method: str
    preset: str
    seed: int
    tasks: int
    resumed: bool


@dataclass(frozen=True)
class TaskDone(Event):
    """A task is learned and everything seen so far was evaluated; `row` is its entry in the result."""

    task: int
    row: TaskRow

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain values, with its kind under `event`."""
        return {"event": type(self).__name__, "task": self.task, "row": self.row.to_dict()}


@dataclass(frozen=True)
class RunDone(Event):
    """All tasks are learned; `final` is the part of that name in the result."""

    final: Final

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain values, with its kind under `event`."""
        return {"event": type(self).__name__, "final": self.final.to_dict()}


class EventLog:
    """A callback that appends every event but `BatchDone` to a file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __call__(self, event: Event) -> None:
        """Append the event."""
        if isinstance(event, BatchDone):
            return
        line = json.dumps({"time": round(time.time(), 3), **event.to_json()}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
