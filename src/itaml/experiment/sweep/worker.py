"""One run in a separate process.

`python -m itaml.experiment.sweep.worker`, with the run as JSON on its standard input.

It stops after the epoch under way, saved, when it is asked to (SIGTERM or SIGINT) or when the process that started it
is gone. A lock beside the run's folder keeps a second job out for as long as the first is alive; it waits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from itaml.errors import ItamlError
from itaml.experiment.run_config import RunConfig


def main() -> int:
    """Run what the standard input says; return the exit code. The last line on standard error says what went wrong."""
    request: dict[str, Any] = json.loads(sys.stdin.read())
    try:
        _run(request)
    except ItamlError as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return error.exit_code
    except OSError as error:  # a full disk, a folder that may not be written
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _run(request: dict[str, Any]) -> None:
    parent, stop_requested = os.getppid(), False

    def on_signal(number: int, frame: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    import torch  # noqa: PLC0415 (after the handlers, because importing it takes seconds)

    from itaml.experiment.runner import run_experiment  # noqa: PLC0415

    torch.set_num_threads(request["threads"])
    folder = Path(request["folder"])
    with waiting_lock(folder):
        run_experiment(
            RunConfig.model_validate(request["config"]),
            folder,
            data_root=Path(request["data_root"]) if request["data_root"] else None,
            resume=not request["force"],
            force=request["force"],
            checkpoint_seconds=request["checkpoint_seconds"],
            stop=lambda: stop_requested or os.getppid() != parent,
        )


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
