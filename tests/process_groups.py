"""Start several processes as torchrun does, without its own start-up time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = f"{HERE.parent / 'src'}{os.pathsep}{HERE}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", **more}


def run_group(
    arguments: Sequence[str], *, count: int = 2, seconds: float = 600, **more: str
) -> list[subprocess.CompletedProcess[str]]:
    """Run `python ARGUMENTS` in so many processes of one group, and return how each ended."""
    group = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment(**group, RANK=str(rank), LOCAL_RANK=str(rank), **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    ended = []
    for process in started:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
        ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, errors))
    return ended
