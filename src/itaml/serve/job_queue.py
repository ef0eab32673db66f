"""Runs the jobs of a model one after another, each in a process of its own.

Every worker process has a queue, and one of them holds the lock of the staging folder and runs jobs. When it ends,
however that happens, another worker (or the next service) takes over: a job that was running is started again, and
continues from the last checkpoint of its learn.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from itaml.errors import CheckpointError, ItamlError
from itaml.modelstore.lock import acquire, release
from itaml.serve.job_records import OVER, JobFolder, JobRecord, JobsFolder, now
from itaml.serve.service_options import ServiceOptions

logger = logging.getLogger(__name__)

PAUSE = 0.1  # seconds between two looks at the folder
PARKED = 75  # exit code of a learning process whose service is gone
CRASHES = 5  # of a job whose process ends without a word, until it is given up
PATIENCE = 10.0  # seconds that a process has to end before it is killed
SWEEP = 3600.0  # seconds between two removals of old jobs


class JobQueue:
    """Runs jobs in the background."""

    def __init__(self, options: ServiceOptions) -> None:
        self.options, self.jobs = options, JobsFolder(options.staging)
        self._lock: int | None = None
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._loop, name="itaml-jobs", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.jobs.path.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Park the job that is running, and end; the next service continues it."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Look for jobs at once."""
        self._wake.set()

    def waiting(self) -> int:
        """Return how many jobs are not over."""
        return sum(record.state not in OVER for _, record in self.jobs.all())

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                if self._lock is not None or self._take_lock():
                    self._run_all()
            except Exception:  # what one job does must not end the queue
                logger.exception("a job could not be run")
            self._wake.wait(PAUSE)
            self._wake.clear()
        if self._lock is not None:
            release(self._lock)

    def _take_lock(self) -> bool:
        try:
            self._lock = acquire(self.options.staging / "runner.lock")
        except (ItamlError, OSError):
            return False
        self.jobs.sweep(keep=self.options.keep_jobs, age=2 * self.options.limits.upload_seconds)
        return True

    def _run_all(self) -> None:
        for folder, record in reversed(self.jobs.all()):
            if self._stop.is_set():
                return
            if record.state not in OVER:
                self._run(folder, record)

    def _run(self, folder: JobFolder, record: JobRecord) -> None:
        if folder.cancelled:
            self._end(folder, "cancelled", None)
            return
        again = record.attempts > 0
        folder.write(
            record.model_copy(
                update={
                    "state": "running",
                    "attempts": record.attempts + 1,
                    "resumed": again,
                    "started": record.started or now(),
                }
            )
        )
        logger.info("job %s %s", folder.id, "continues" if again else "starts")
        with self._start(folder) as process:
            code = self._wait(folder, process)
        self._settle(folder, code)

    def _start(self, folder: JobFolder) -> subprocess.Popen[bytes]:
        threads = self.options.learn_threads or 1
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment.pop("ITAML_SERVE_OPTIONS", None)
        command = [sys.executable, "-m", "itaml.serve.learn_job", str(folder.path), str(self.options.model)]
        return subprocess.Popen(
            [*command, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # a Ctrl-C in the terminal of the service is not for the job
        )

    def _wait(self, folder: JobFolder, process: subprocess.Popen[bytes]) -> int:
        """Wait for the end of a process, and end it if the job is cancelled or the service stops."""
        while True:
            try:
                return process.wait(PAUSE)
            except subprocess.TimeoutExpired:
                if folder.cancelled or self._stop.is_set():
                    return _ended(process)

    def _settle(self, folder: JobFolder, code: int) -> None:
        """Bring the record of a job in line with how its process ended."""
        record = folder.read()
        if record.state in OVER:
            folder.drop_images()
            logger.info("job %s is %s", folder.id, record.state)
        elif folder.cancelled:
            self._end(folder, "cancelled", None)
        elif self._stop.is_set():
            folder.update(state="queued")
            logger.info("job %s is parked; the next service continues it", folder.id)
        elif code != PARKED and record.crashes + 1 >= CRASHES:
            self._end(folder, "failed", f"the learning process ended {CRASHES} times without a result (code {code})")
        else:
            folder.update(crashes=record.crashes + (code != PARKED))
            logger.warning("the process of job %s ended with code %d; it is started again", folder.id, code)

    def _end(self, folder: JobFolder, state: str, error: str | None) -> None:
        with suppress(CheckpointError):
            folder.update(state=state, finished=now(), error=error)
        folder.drop_images()
        logger.info("job %s is %s", folder.id, state)


def _ended(process: subprocess.Popen[bytes]) -> int:
    """End a learning process: it is asked first, and killed if it does not obey."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def staging_problem(path: Path) -> str | None:
    """Return why a staging folder cannot be used, None if it can."""
    try:
        (path / "jobs").mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
