"""Checkpoints of a learn: one that is killed continues from its last saved epoch, to the same bits.

The state of the learner is written beside the model after an epoch. It belongs to one learn: the same model, the same
settings and the same images. Any other learn ignores it, and it is removed when a version has been written.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from itaml import distributed
from itaml.errors import ItamlError
from itaml.events import Callback, EpochDone, Event
from itaml.modelstore.manifest import Manifest
from itaml.modelstore.model_folder import CHECKPOINT, ModelFolder
from itaml.storage import load_state, save_state

logger = logging.getLogger(__name__)

KIND = "learn checkpoint"
SECONDS = 5.0  # between two checkpoints


class LearnCheckpoint:
    """Saves the progress of one learn in the model's folder.

    Args:
        folder: of the model; None saves nothing.
        seconds: save after an epoch when the last checkpoint is older than this; 0 saves after every epoch.
    """

    def __init__(self, folder: ModelFolder | None, *, seconds: float = SECONDS) -> None:
        self.path = None if folder is None else folder.path / CHECKPOINT
        self.seconds = seconds

    @contextmanager
    def resuming(self, learner: Any, key: str, callback: Callback) -> Iterator[None]:
        """Restore the learner if this learn was interrupted, and save its progress inside the block.

        Args:
            learner: about to learn; one without epochs is left alone.
            key: identifies the learn (see `learn_key`).
            callback: called with every event.
        """
        if not hasattr(learner, "callback"):
            yield
            return
        self._restore(learner, key)
        saved_at = time.monotonic()

        def on_event(event: Event) -> None:
            nonlocal saved_at
            if isinstance(event, EpochDone) and time.monotonic() - saved_at >= self.seconds:
                self._save(learner, key)
                saved_at = time.monotonic()
            callback(event)

        learner.callback = on_event
        yield
        learner.callback = callback

    def clear(self) -> None:
        """Remove the checkpoint; a disk that refuses is not a failure of the learn, which is complete."""
        try:
            if self.path is not None and distributed.is_main():
                self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be removed: %s", self.path, error)

    def _restore(self, learner: Any, key: str) -> None:
        if self.path is None or not self.path.is_file():
            return
        before = learner.state_dict()
        try:
            state = load_state(self.path, kind=KIND)
            if state.get("key") == key:
                learner.load_state_dict(state["learner"])
        except Exception as error:  # the checksum fits, so somebody wrote this; it may hold anything
            logger.warning("%s is damaged and was ignored: %s", self.path, error)
            learner.load_state_dict(before)

    def _save(self, learner: Any, key: str) -> None:
        if self.path is None or not distributed.is_main():
            return
        try:
            save_state(self.path, {"key": key, "learner": learner.state_dict()}, kind=KIND)
        except (OSError, ItamlError) as error:
            logger.warning("no checkpoint of this learn could be written: %s", error)


def learn_key(manifest: Manifest, classes: Sequence[str], digests: Sequence[bytes], *, precision: str) -> str:
    """Return a text that is the same for the same learn only.

    Args:
        manifest: of the model before the learn, with the settings of the learn.
        classes: all classes after it.
        digests: of the images that are learned, in order.
        precision: number format of the products.
    """
    digest = hashlib.sha256(manifest.model_dump_json(exclude={"version", "files", "written_by"}).encode())
    digest.update(repr((tuple(classes), precision)).encode())
    for image in digests:
        digest.update(image)
    return digest.hexdigest()
