"""Runs side by side on this machine, each in a separate process (`itaml.experiment.sweep.worker`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from itaml.config import Compute
from itaml.experiment.sweep.executors.executor import Outcome, Request, default_threads
from itaml.hardware.machine import cores


class LocalPool:
    """Executes at most `limit` runs at a time, each in a process with its share of the CPUs.

    Args:
        limit: runs at a time.
        threads: CPU threads of each run; by default its share of the cores.
        command: what a process executes; it reads the request from its standard input.
    """

    def __init__(
        self,
        limit: int,
        *,
        threads: int | None = None,
        command: Sequence[str] = (sys.executable, "-m", "itaml.experiment.sweep.worker"),
    ) -> None:
        self.limit: int | None = limit
        self.command = list(command)
        self.threads = threads
        self.share = max(1, cores() // limit)

    def start(self, request: Request) -> LocalProcess:
        """Start a process."""
        threads = str(request["threads"])
        output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed at its end)
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            start_new_session=True,  # Ctrl-C is for us; we tell the jobs
            text=True,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; its exit code and its last line of output tell why
        return LocalProcess(process, output)

    def check(self, compute: Compute) -> None:
        """Refuse runs that this machine cannot compute as they are to be computed (see `check_compute`)."""
        from itaml.learners.compute import check_compute  # noqa: PLC0415 (imports torch)

        check_compute(compute)

    def threads_for(self, backbone: str | None) -> int:
        """Return the CPU threads of a run."""
        return self.threads or default_threads(backbone, self.share)

    def close(self) -> None:
        """Do nothing: a process ends with its run."""


class LocalProcess:
    """A run in a process of this machine."""

    started = True

    def __init__(self, process: subprocess.Popen[str], output: IO[str]) -> None:
        self.process, self.output = process, output

    def poll(self) -> Outcome | None:
        """Return how it ended: its exit code and the last line that it printed."""
        code = self.process.poll()
        if code is None:
            return None
        self.output.seek(0)
        lines = [line for line in self.output.read().splitlines() if line.strip()]
        self.output.close()
        return Outcome(code, lines[-1] if lines else f"ended by signal {-code}" if code < 0 else f"exit code {code}")

    def stop(self) -> None:
        """Ask it to save and end after its epoch."""
        if self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
