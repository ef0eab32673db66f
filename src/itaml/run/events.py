"""The event log: one JSON object a line, with the time it was written, in `events.jsonl` of a run's folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

from itaml.events import BatchDone, Event


class EventLog:
    """A listener that appends every event but `BatchDone` to a file."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __call__(self, event: Event) -> None:
        """Append the event."""
        if isinstance(event, BatchDone):
            return
        line = json.dumps({"time": round(time.time(), 3), **event.to_json()}, ensure_ascii=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
