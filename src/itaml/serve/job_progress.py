"""The progress of a learn, from its events: phase, epoch, images per second and time left."""

from __future__ import annotations

import time
from typing import Any

from itaml.events import BatchDone, EpochDone, Event, TaskStarted
from itaml.modelstore.image_reading import ImagesRead
from itaml.modelstore.loaded_model import SamplesComputed
from itaml.serve.job_records import JobFolder

EVERY = 0.2  # seconds between two writes
SHARES = {  # of the progress bar: where each phase starts and ends
    "staging": (0.0, 0.02),
    "reading": (0.02, 0.2),
    "features": (0.2, 0.6),
    "training": (0.6, 0.9),
    "saving": (0.9, 0.93),
    "verifying": (0.93, 1.0),
    "done": (1.0, 1.0),
}
EMPTY: dict[str, Any] = {
    "phase": "staging",
    "epoch": 0,
    "epochs": 0,
    "images_done": 0,
    "images_total": 0,
    "images_per_second": 0.0,
    "seconds_left": None,
    "progress": 0.0,
}


class JobProgress:
    """A callback that writes the progress of a job to its folder."""

    def __init__(self, folder: JobFolder, images: int) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {**EMPTY, "images_total": images}
        self._written = 0.0
        self._phase_start = self._last = time.monotonic()

    def phase(self, name: str) -> None:
        """Begin a phase."""
        self._enter(name)
        self._set(0.0)
        self._write(force=True)

    def __call__(self, event: Event) -> None:
        """Take an event of the learn."""
        if isinstance(event, ImagesRead):
            self._images("reading", event.done, event.total)
        elif isinstance(event, SamplesComputed):
            self._images("features", event.done, event.total)
        elif isinstance(event, TaskStarted):
            self._enter("training")
            self.values |= {"epoch": event.epoch, "epochs": event.epochs}
        elif isinstance(event, BatchDone):
            self._enter("training")
            self._batch(event)
        elif isinstance(event, EpochDone):
            self._enter("training")
            self.values |= {"epoch": event.epoch, "epochs": event.epochs}
            self._set(event.epoch / max(event.epochs, 1))
            if event.epoch >= event.epochs:
                self.phase("saving")
        self._last = time.monotonic()
        self._write()

    def _enter(self, phase: str) -> None:
        """Begin a phase; it began with the last event of the one before."""
        if self.values["phase"] != phase:
            self._phase_start = self._last
            self.values |= {"phase": phase, "seconds_left": None}

    def _images(self, phase: str, done: int, total: int) -> None:
        self._enter(phase)
        seconds = time.monotonic() - self._phase_start
        rate = done / seconds if seconds > 0 else 0.0
        left = (total - done) / rate if rate else None
        self.values |= {"images_done": done, "images_total": total, "images_per_second": round(rate, 2)}
        self.values["seconds_left"] = None if left is None else round(left, 2)
        self._set(done / max(total, 1))

    def _batch(self, event: BatchDone) -> None:
        rate = event.done / event.seconds if event.seconds > 0 else 0.0
        whole, here = event.epochs * event.total, event.epoch * event.total + event.done
        self.values |= {
            "epoch": event.epoch + 1,
            "epochs": event.epochs,
            "images_done": event.done,
            "images_total": event.total,
            "images_per_second": round(rate, 2),
            "seconds_left": round((whole - here) / rate, 2) if rate else None,
        }
        self._set(here / max(whole, 1))

    def _set(self, share: float) -> None:
        first, last = SHARES[self.values["phase"]]
        self.values["progress"] = round(first + (last - first) * min(max(share, 0.0), 1.0), 4)

    def _write(self, *, force: bool = False) -> None:
        if force or time.monotonic() - self._written >= EVERY:
            self.folder.write_progress(self.values)
            self._written = time.monotonic()
