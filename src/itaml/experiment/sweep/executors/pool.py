"""Runs side by side, each in a separate process (`itaml.experiment.sweep.worker`) with its share of the CPUs.

A run that fails, or is killed because memory ran out, takes no other with it. What is finished already is kept, what
was interrupted continues.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from itaml.errors import CheckpointError, RunExistsError
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import inspect_folder
from itaml.hardware.machine import cores
from itaml.models import backbone_traits

WAITING, RUNNING, KEPT, DONE, FAILED, STOPPED = "waiting", "running", "kept", "done", "failed", "stopped"
INTERRUPTED = 130  # exit code of a job that was asked to stop


@dataclass
class Job:
    """One run of many, and what became of it."""

    config: RunConfig
    folder: Path
    variant: str = ""  # what sets it apart from other runs of its method and preset
    state: str = WAITING
    error: str = ""
    process: subprocess.Popen[str] | None = None
    output: IO[str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The run in a few words."""
        parts = [f"{self.config.method} ({self.config.preset})", self.variant, f"seed {self.config.seed}"]
        return ", ".join(part for part in parts if part)


def make_job(config: RunConfig, folder: Path | str, *, force: bool, variant: str = "") -> Job:
    """Return the job of a run; what became of it is known already if it is finished, or cannot go on."""
    job = Job(config, Path(folder), variant)
    try:
        if inspect_folder(config, folder, resume=True, force=force):
            job.state = KEPT
    except (CheckpointError, RunExistsError) as error:
        job.state, job.error = FAILED, str(error)
    return job


class Pool:
    """Runs jobs, at most `parallel` at a time; `step` is called repeatedly until it returns False."""

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        parallel: int,
        data_root: Path | str | None = None,
        force: bool = False,
        checkpoint_seconds: float = 30.0,
        threads: int | None = None,
        command: Sequence[str] = (sys.executable, "-m", "itaml.experiment.sweep.worker"),
    ) -> None:
        self.command = list(command)
        self.jobs = list(jobs)
        self.parallel = parallel
        self.threads = threads
        self.share = max(1, cores() // parallel)
        self.request = {
            "data_root": str(data_root) if data_root else None,
            "force": force,
            "checkpoint_seconds": checkpoint_seconds,
        }
        self.stopping = False

    def step(self) -> bool:
        """Note which jobs ended, start as many as there is room for; return whether any is left."""
        for job in self.jobs:
            if job.process is not None and job.process.poll() is not None:
                self._ended(job)
        running = sum(job.state == RUNNING for job in self.jobs)
        for job in self.jobs:
            if job.state == WAITING and (self.stopping or running < self.parallel):
                if self.stopping:
                    job.state = STOPPED
                    continue
                self._start(job)
                running += 1
        return any(job.state in (WAITING, RUNNING) for job in self.jobs)

    def run(self, *, on_step: Callable[[], None] = lambda: None, every: float = 0.2) -> None:
        """Run everything; `on_step` is called after every step."""
        while self.step():
            on_step()
            time.sleep(every)
        on_step()

    def stop(self) -> None:
        """Ask every job to save and end after its epoch, and start no more."""
        self.stopping = True
        for job in self.jobs:
            if job.process is not None and job.process.poll() is None:
                job.process.terminate()

    def kill(self) -> None:
        """End every job at once; what they saved last stays."""
        self.stopping = True
        for job in self.jobs:
            if job.process is not None and job.process.poll() is None:
                job.process.kill()
                job.process.wait()
            if job.process is not None:
                self._ended(job)

    def _start(self, job: Job) -> None:
        threads = self.threads or self._default_threads(job.config.settings.get("backbone"))
        job.output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed at its end)
        job.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=job.output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            start_new_session=True,  # Ctrl-C is for us; we tell the jobs
            text=True,
        )
        config, folder = job.config.model_dump(mode="json"), str(job.folder.absolute())
        request = {**self.request, "threads": threads, "config": config, "folder": folder}
        assert job.process.stdin is not None
        try:
            job.process.stdin.write(json.dumps(request))
            job.process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; its exit code and its last line of output tell why
        job.state = RUNNING

    def _default_threads(self, backbone: str | None) -> int:
        """Return a run's share of the cores; steps of a network without convolutions are too short to share."""
        return self.share if backbone is None or backbone_traits(backbone).convolutional else 1

    def _ended(self, job: Job) -> None:
        assert job.process is not None
        assert job.output is not None
        code = job.process.returncode
        job.output.seek(0)
        lines = [line for line in job.output.read().splitlines() if line.strip()]
        job.output.close()
        job.process = None
        if code == 0:
            job.state = DONE
        elif code == INTERRUPTED or self.stopping:
            job.state = STOPPED
        else:
            job.state = FAILED
            job.error = lines[-1] if lines else f"ended by signal {-code}" if code < 0 else f"exit code {code}"
