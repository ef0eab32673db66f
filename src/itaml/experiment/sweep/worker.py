"""One run of a sweep, executed in this process as a request says.

`python -m itaml.experiment.sweep.worker`, with the request as JSON on its standard input, is what the local pool
starts. It stops after the epoch under way, saved, when it is asked to (SIGTERM or SIGINT) or when the process that
started it is gone. A lock beside the run's folder keeps a second job out for as long as the first is alive; it waits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from itaml.errors import ItamlError
from itaml.experiment.run_config import RunConfig
from itaml.experiment.sweep.executors.executor import Outcome, Request
from itaml.hardware.allocator import keep_freed_memory


def main() -> int:
    """Run what the standard input says; return the exit code. The last line on standard error says what went wrong."""
    request: Request = json.loads(sys.stdin.read())
    parent, stop_requested = os.getppid(), False

    def on_signal(number: int, frame: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    outcome = execute(request, stop=lambda: stop_requested or os.getppid() != parent)
    if outcome.reason:
        sys.stderr.write(f"{outcome.reason}\n")
    return outcome.code


def execute(request: Request, *, stop: Callable[[], bool]) -> Outcome:
    """Execute a run, from its last checkpoint if there is one; what goes wrong is in the outcome.

    Args:
        request: see `itaml.experiment.sweep.run_queue`.
        stop: called after every epoch; if it returns True, the run is saved and ended.
    """
    import torch  # noqa: PLC0415 (after the handlers of signals, because importing it takes seconds)

    from itaml.experiment.runner import run_experiment  # noqa: PLC0415

    torch.set_num_threads(request["threads"])
    keep_freed_memory()  # the process is for this run alone
    folder = Path(request["folder"])
    try:
        with waiting_lock(folder):
            run_experiment(
                RunConfig.model_validate(request["config"]),
                folder,
                data_root=Path(request["data_root"]) if request["data_root"] else None,
                resume=not request["force"],
                force=request["force"],
                checkpoint_seconds=request["checkpoint_seconds"],
                stop=stop,
            )
    except ItamlError as error:
        return Outcome(error.exit_code, " ".join(str(error).split()))
    except OSError as error:  # a full disk, a folder that may not be written
        return Outcome(1, str(error))
    return Outcome(0)


@contextmanager
def waiting_lock(folder: Path) -> Iterator[None]:
    """Wait until no other job has the run in `folder`, and hold it inside the block."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 (on Windows alone)

            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            import fcntl  # noqa: PLC0415 (on Unix alone)

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which lets go of the lock


if __name__ == "__main__":
    sys.exit(main())
