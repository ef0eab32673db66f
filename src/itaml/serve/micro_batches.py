"""Micro-batching: one thread predicts the images of requests that wait at the same time together.

A request waits a few milliseconds at most for others, and only while others are being received. Requests with equal
options whose images are predicted alone share a batch; a continuum or a stream is a batch of its own, because its
images belong together.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from itaml.modelstore.predictions import ImagePrediction
from itaml.serve.served_model import PredictOptions, ServedModel

MOST = 128  # images of a batch


class StoppedError(Exception):
    """The service is shutting down."""


@dataclass(eq=False)
class Waiting:
    """Images of one request, decoded for one version."""

    served: ServedModel
    images: Sequence[Tensor]
    options: PredictOptions
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[ImagePrediction]]
    since: float = field(default_factory=time.monotonic)

    def settle(self, result: list[ImagePrediction] | BaseException) -> None:
        """Hand over the result in the thread of the event loop."""

        def done() -> None:
            if self.future.done():  # the client is gone
                return
            if isinstance(result, BaseException):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)

        self.loop.call_soon_threadsafe(done)


class Batcher:
    """Predicts in a thread of its own.

    Args:
        window: seconds that the first request of a batch waits for others.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._queue: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._waiting = 0
        self._arriving = 0
        self._thread = threading.Thread(target=self._run, name="itaml-predict", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is waiting, and end."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Images in the queue."""
        return self._waiting

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """Announce a request whose images are being received and decoded inside the block."""
        with self._changed:
            self._arriving += 1
        try:
            yield
        finally:
            with self._changed:
                self._arriving -= 1
                if not self._arriving:  # nobody to wait for any more
                    self._changed.notify()

    async def predict(
        self, served: ServedModel, images: Sequence[Tensor], options: PredictOptions
    ) -> list[ImagePrediction]:
        """Return a prediction for each image, in order.

        Raises:
            StoppedError: the service is shutting down.
        """
        loop = asyncio.get_running_loop()
        entry = Waiting(served, images, options, loop, loop.create_future())
        with self._changed:
            if self._stopped:
                raise StoppedError
            self._queue.append(entry)
            self._waiting += len(images)
            if len(self._queue) == 1 or self._waiting >= MOST:  # otherwise the thread is busy, or waits for others
                self._changed.notify()
        return await entry.future

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._predict(batch)
            except Exception as error:  # one batch that fails must not end the thread
                for entry in batch:
                    entry.settle(error)

    def _predict(self, batch: list[Waiting]) -> None:
        images = [image for entry in batch for image in entry.images]
        found = batch[0].served.predict(images, batch[0].options)
        start = 0
        for entry in batch:
            entry.settle(found[start : start + len(entry.images)])
            start += len(entry.images)

    def _next(self) -> list[Waiting]:
        """Wait for requests; return those of the next batch, none when the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopped)
            if not self._queue:
                return []
            end = self._queue[0].since + self.window
            while self._arriving and not self._stopped and self._waiting < MOST:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._take()

    def _take(self) -> list[Waiting]:
        first = self._queue.popleft()
        batch, count, rest = [first], len(first.images), deque[Waiting]()
        if first.options.mode == "alone":
            while self._queue:
                entry = self._queue.popleft()
                same = entry.served is first.served and entry.options == first.options
                if same and count + len(entry.images) <= MOST:
                    batch.append(entry)
                    count += len(entry.images)
                else:
                    rest.append(entry)
            self._queue = rest
        self._waiting -= count
        return batch
