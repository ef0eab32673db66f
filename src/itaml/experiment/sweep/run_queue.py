"""`RunQueue`: gives the missing runs of a sweep to an executor and notes what becomes of them.

A run that fails, or is killed because memory ran out, takes no other with it. What is finished already is kept, what
was interrupted continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from itaml.experiment.sweep.executors.executor import INTERRUPTED, Executor, Outcome, Request
from itaml.experiment.sweep.job import DONE, FAILED, RUNNING, STOPPED, WAITING, Job


class RunQueue:
    """Runs jobs; `step` is called repeatedly until it returns False.

    Args:
        jobs: all runs; those that are waiting are executed. The list may grow.
        executor: executes them.
        data_root: folder of the data sets.
        force: delete what is in the folders of the runs.
        checkpoint_seconds: age of a checkpoint after which the next epoch saves another.
    """

    def __init__(
        self,
        jobs: list[Job],
        executor: Executor,
        *,
        data_root: Path | str | None = None,
        force: bool = False,
        checkpoint_seconds: float = 30.0,
    ) -> None:
        self.jobs = jobs
        self.executor = executor
        self.stopping = False
        self._common = {
            "data_root": str(Path(data_root).absolute()) if data_root else None,
            "force": force,
            "checkpoint_seconds": checkpoint_seconds,
        }

    def step(self) -> bool:
        """Note which jobs ended, start as many as there is room for; return whether any is left."""
        for job in self.jobs:
            self._look_at(job)
        given = sum(job.handle is not None for job in self.jobs)
        for job in self.jobs:
            if job.state != WAITING or job.handle is not None:
                continue
            if self.stopping:
                job.state = STOPPED
            elif self.executor.limit is None or given < self.executor.limit:
                job.handle = self.executor.start(self._request(job))
                self._look_at(job)
                given += 1
        return any(job.state in (WAITING, RUNNING) for job in self.jobs)

    def run(
        self,
        *,
        on_step: Callable[[], None] = lambda: None,
        every: float = 0.2,
        more: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run everything.

        Args:
            on_step: called after every step.
            every: seconds between steps.
            more: called before every step; may add jobs, and returns whether it may add others later.
        """
        while (more() and not self.stopping) | self.step():
            on_step()
            time.sleep(every)
        on_step()

    def stop(self) -> None:
        """Ask every job to save and end after its epoch, and start no more."""
        self.stopping = True
        for job in self.jobs:
            if job.handle is not None:
                job.handle.stop()

    def kill(self) -> None:
        """End every job at once; what they saved last stays."""
        self.stopping = True
        for job in self.jobs:
            if job.handle is not None:
                job.handle.kill()
                self._ended(job, job.handle.poll() or Outcome(INTERRUPTED))

    def _look_at(self, job: Job) -> None:
        if job.handle is None:
            return
        outcome = job.handle.poll()
        if outcome is not None:
            self._ended(job, outcome)
        elif job.handle.started:
            job.state = RUNNING

    def _request(self, job: Job) -> Request:
        threads = self.executor.threads_for(job.config.settings.get("backbone"))
        config, folder = job.config.model_dump(mode="json"), str(job.folder.absolute())
        return {**self._common, "threads": threads, "config": config, "folder": folder}

    def _ended(self, job: Job, outcome: Outcome) -> None:
        job.handle = None
        if outcome.code == 0:
            job.state = DONE
        elif outcome.code == INTERRUPTED or self.stopping:
            job.state = STOPPED
        else:
            job.state, job.error = FAILED, outcome.reason
