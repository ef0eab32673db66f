"""The command line as one of the processes that torchrun has started: the first prints, the first to fail tells why.

Nothing here imports torch where there is one process.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from itaml.errors import ItamlError, UsageError
from itaml.hardware.scheduling import schedule_as_batch

COMMANDS = ("run", "learn")  # whose work several processes can share


def several() -> bool:
    """Return whether torchrun has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def is_main() -> bool:
    """Return whether this process prints."""
    return not several() or os.environ["RANK"] == "0"


def command_of(arguments: Sequence[str]) -> str:
    """Return the command that a command line names; empty if it names none."""
    return next((word for word in arguments if not word.startswith("-")), "")


def join(arguments: Sequence[str]) -> None:
    """Join the other processes; all but the first print nothing on standard output.

    Raises:
        UsageError: the command is not one that several processes can share.
    """
    from itaml import distributed

    schedule_as_batch()
    distributed.start()
    if not is_main():
        sys.stdout = io.TextIOWrapper(open(os.devnull, "wb"))  # noqa: SIM115 (for the life of the process)
    command = command_of(arguments)
    if command not in COMMANDS:
        raise UsageError(f"torchrun is for `itaml run` and `itaml learn`: call `itaml {command}` by itself")


def claim(code: int) -> tuple[bool, int]:
    """Return whether this process, which has failed, should tell why, and the exit code of the first to fail."""
    if not several():
        return True, code
    from itaml import distributed

    return distributed.claim_failure(code)


def run_together(run: Callable[[], int], fail: Callable[[str, int], int], arguments: Sequence[str]) -> None:
    """Run the command line as one of several processes, and end the process with its exit code.

    Args:
        run: the command line; returns the exit code.
        fail: prints an error, if no other process has printed one, and returns the exit code.
        arguments: of the command line.
    """
    from itaml import distributed

    try:
        join(arguments)
        code = run()
        if code == 0:
            distributed.stop()
    except ItamlError as error:
        code = fail(str(error), error.exit_code)
    except Exception:
        first, code = claim(1)
        if first:
            traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: the connections to processes that have failed must not be waited for
