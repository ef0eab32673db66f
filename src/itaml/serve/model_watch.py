"""The version in use: loaded once, replaced in the background when the model's pointer changes on disk.

Predictions go on with the version that is loaded until the next one is read, checked and built; then one assignment
replaces it. Learns and corrections of any process are noticed, because the pointer file is looked at every
`PAUSE` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from itaml.errors import ItamlError
from itaml.modelstore.model_folder import ModelFolder
from itaml.serve.served_model import ServedModel, load

logger = logging.getLogger(__name__)

PAUSE = 0.1  # seconds between two looks at the pointer
RETRY = 2.0  # seconds after a version could not be loaded

Signature = tuple[int, int, int] | None


class ModelWatch:
    """Holds the version in use.

    Args:
        path: the model's folder.
        on_load: called with every version that is loaded, in the thread of the watch.
    """

    def __init__(self, path: Path, on_load: Callable[[ServedModel], None] = lambda served: None) -> None:
        self.path, self._on_load = path, on_load
        self._served: ServedModel | None = None
        self._seen: Signature = None
        self._problem = ""
        self._loading = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="itaml-watch", daemon=True)

    def start(self) -> None:
        """Load the model in the background, and watch it from then on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def served(self) -> ServedModel | None:
        """The version in use; None until it is loaded."""
        return self._served

    @property
    def problem(self) -> str:
        """Why the version on disk cannot be loaded; empty if it can."""
        return self._problem

    async def ready(self) -> ServedModel:
        """Return the version in use; wait until there is one."""
        while (served := self._served) is None:
            await asyncio.sleep(0.02)
        return served

    async def latest(self) -> ServedModel:
        """Return the version that the disk names, loaded now if it is not yet; the one in use if that fails."""
        served = await self.ready()
        if _signature(self.path) != self._seen:
            await asyncio.to_thread(self._refresh)
            served = self._served or served
        return served

    def _run(self) -> None:
        while not self._stop.is_set():
            self._refresh()
            self._stop.wait(PAUSE if not self._problem else RETRY)

    def _refresh(self) -> None:
        with self._loading:
            signature = _signature(self.path)
            if self._served is not None and signature == self._seen:
                return
            start = time.monotonic()
            try:
                loaded = load(self.path, like=self._served)
            except (ItamlError, OSError) as error:
                if str(error) != self._problem:
                    logger.error("the model cannot be loaded: %s", error)
                self._problem = str(error)
                return
            self._served, self._seen, self._problem = loaded, signature, ""
        self._on_load(loaded)
        logger.info("version %d is loaded in %.2f s", loaded.version, time.monotonic() - start)


def _signature(path: Path) -> Signature:
    try:
        found = os.lstat(ModelFolder(path).pointer)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
