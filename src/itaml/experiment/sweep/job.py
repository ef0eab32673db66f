"""`Job`: one run of many, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from itaml.errors import CheckpointError, RunExistsError
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import inspect_folder
from itaml.experiment.sweep.executors.executor import Handle

WAITING, RUNNING, KEPT, DONE, FAILED, STOPPED = "waiting", "running", "kept", "done", "failed", "stopped"


@dataclass
class Job:
    """One run of many, and what became of it."""

    config: RunConfig
    folder: Path
    variant: str = ""  # what sets it apart from other runs of its method and preset
    state: str = WAITING
    error: str = ""
    handle: Handle | None = field(default=None, repr=False)  # while an executor has it

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
