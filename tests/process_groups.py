"""Start several processes as torchrun does, without its own start-up time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiment_support import numbers

HERE = Path(__file__).parent
SOURCES = f"{HERE.parent / 'src'}{os.pathsep}{HERE}"
RUN = ["-m", "itaml", "run", "digits", "--set", "epochs=2", "--set", "backbone=mlp", "--checkpoint-seconds", "0"]
Ended = subprocess.CompletedProcess[str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", **more}


def start(arguments: Sequence[str], **more: str) -> subprocess.Popen[str]:
    """Start `python ARGUMENTS`."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_group(arguments: Sequence[str], *, count: int = 2, **more: str) -> list[subprocess.Popen[str]]:
    """Start `python ARGUMENTS` in so many processes of one group."""
    group = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [start(arguments, **group, RANK=str(rank), LOCAL_RANK=str(rank), **more) for rank in range(count)]


def start_machines(arguments: Sequence[str], caches: Sequence[Path]) -> list[subprocess.Popen[str]]:
    """Start `python ARGUMENTS` in one process of each of several machines, which have caches of their own."""
    group = {"WORLD_SIZE": str(len(caches)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [
        start(arguments, **group, RANK=str(rank), LOCAL_RANK="0", XDG_CACHE_HOME=str(cache))
        for rank, cache in enumerate(caches)
    ]


def finish_group(started: Sequence[subprocess.Popen[str]], *, seconds: float = 600) -> list[Ended]:
    """Wait for processes, and return how each ended."""
    ended = []
    for process in started:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
        ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, errors))
    return ended


def run_group(arguments: Sequence[str], *, count: int = 2, **more: str) -> list[Ended]:
    """Run `python ARGUMENTS` in so many processes of one group, and return how each ended."""
    return finish_group(start_group(arguments, count=count, **more))


def result_of(folder: Path) -> dict[str, Any]:
    """Return the numbers of a result, without times and memory."""
    found: dict[str, Any] = numbers(json.loads((folder / "result.json").read_text()))
    assert "ece_p1" in found["final"]["metrics"]
    return found


def same_result(left: Path, right: Path) -> bool:
    """Say whether two runs, also of different numbers of processes, have the same result: every metric, to the bit."""
    return result_of(left) == result_of(right)
