"""The interface of executors: where the runs of a sweep are executed.

An executor starts a run and returns a handle of it; everything else (which runs are missing, in which order they
start, what became of them, what Ctrl-C does) is the same for all of them and lives in
`itaml.experiment.sweep.run_queue`. A run is a `Request`: plain JSON values, so that it can be sent to another process
or machine. All executors execute it by `itaml.experiment.sweep.worker.execute`, which resumes from the checkpoint in
the run's folder, so a run gives the same bits wherever and however often it was started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from itaml.config import Compute
from itaml.models import backbone_traits

Request = dict[str, Any]  # config, folder, data_root, force, checkpoint_seconds, threads
INTERRUPTED = 130  # exit code of a run that was asked to stop


@dataclass(frozen=True)
class Outcome:
    """How a run ended: 0 is finished, `INTERRUPTED` was stopped and saved, anything else failed for a reason."""

    code: int
    reason: str = ""


class Handle(Protocol):
    """A run that an executor has."""

    @property
    def started(self) -> bool:
        """Whether it is being executed, rather than waiting for resources."""

    def poll(self) -> Outcome | None:
        """Return how it ended, or None while it has not."""

    def stop(self) -> None:
        """Ask it to save and end after its epoch."""

    def kill(self) -> None:
        """End it at once; what it saved last stays."""


class Executor(Protocol):
    """Executes runs; `limit` is how many it is given at once, None for any number."""

    limit: int | None

    def start(self, request: Request) -> Handle:
        """Execute a run as soon as there is room for it."""

    def check(self, compute: Compute) -> None:
        """Refuse runs that cannot be computed here as they are to be computed.

        Raises:
            UsageError: a device or a precision is missing.
        """

    def threads_for(self, backbone: str | None) -> int:
        """Return the CPU threads of a run."""

    def close(self) -> None:
        """Let go of everything; no run is under way any more."""


def default_threads(backbone: str | None, share: int) -> int:
    """Return a run's share of the cores; steps of a network without convolutions are too short to share."""
    return share if backbone is None or backbone_traits(backbone).convolutional else 1
