"""Print the progress of an estimator, as `verbose` of scikit-learn's estimators does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import Tensor

from itaml.data.images import ArrayPixels, ImageSet
from itaml.data.stream import Task
from itaml.events import EpochDone, Event
from itaml.learners.api import Learner
from itaml.learners.frozen import FrozenLearner
from itaml.text import count

LINES = 10  # about how many lines tell of the images of one task


@contextmanager
def shown_progress(learner: Learner, task: Task, *, shown: bool) -> Iterator[Task]:
    """Yield the task to learn; inside the block, what happens is printed if `shown`."""
    if not shown:
        yield task
        return
    number = task.index + 1
    what = f"{len(task.train)} samples" + (f" of {count(len(task.classes), 'new class')}" if task.classes else "")
    _say(f"task {number}: learning {what}")

    def callback(event: Event) -> None:
        if isinstance(event, EpochDone):
            _say(f"task {number}, epoch {event.epoch} of {event.epochs}: loss {event.loss:.4f}, {event.seconds:.1f} s")

    trains = hasattr(learner.learner if isinstance(learner, FrozenLearner) else learner, "callback")
    before = getattr(learner, "callback", None)
    if trains:
        learner.callback = callback  # type: ignore[attr-defined]
    try:
        yield _counted(task) if isinstance(learner, FrozenLearner) else task
    finally:
        if trains:  # an estimator is copied to other processes, and a function in here cannot be
            learner.callback = before  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class CountedPixels(ArrayPixels):
    """Pixels in memory that report how many of them were read."""

    on_read: Callable[[int], None]

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels of `rows`."""
        self.on_read(len(rows))
        return super().read(rows)


def _counted(task: Task) -> Task:
    images, done = task.train, 0
    assert isinstance(images.pixels, ArrayPixels)
    step = max(1, len(images) // LINES)

    def on_read(number: int) -> None:
        nonlocal done
        if (done + number) // step > done // step:
            _say(f"task {task.index + 1}: {min(done + number, len(images))} of {len(images)} images computed")
        done += number

    pixels = CountedPixels(images.pixels.values, on_read)
    return replace(task, train=ImageSet(pixels, images.labels, images.rows))


def _say(line: str) -> None:
    sys.stdout.write(f"[ITAMLClassifier] {line}\n")
    sys.stdout.flush()
