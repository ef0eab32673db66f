"""Find out in a child process whether training in bfloat16 survives on this CPU, and whether it is faster.

The outcome is kept in the user's cache folder, one JSON file for each machine: CPU model and instruction sets,
operating system kernel, torch version, and `ONEDNN_MAX_CPU_ISA`, which switches instruction sets off. A cache that
cannot be read or written costs a probe for each process and nothing else. Deleting the file probes again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from itaml.hardware.machine import cache_folder, cpu_flags, cpu_model
from itaml.storage import write_json

FASTER = 1.2  # how many times as fast as fp32 bfloat16 has to be to be chosen
TIMEOUT = 60.0  # seconds; a probe takes about two
FORMAT = 1
COMMAND = (sys.executable, "-P", "-m", "itaml.hardware.trial")
ENDED_BY_OTHERS = {"SIGINT", "SIGTERM", "SIGKILL", "SIGHUP"}  # says nothing about bfloat16

Outcome = Literal["fast", "slow", "crashed"]


@dataclass(frozen=True)
class Probe:
    """What a probe found: the outcome, how many times as fast as fp32 bfloat16 was, and the outcome as text."""

    outcome: Outcome
    ratio: float | None
    reason: str


_known: dict[str, Probe] = {}  # of this process, by cache file


def bf16_probe() -> Probe:
    """Return what is known about bfloat16 on this CPU, from the cache or from a new probe; it never raises."""
    path = cache_file()
    if str(path) not in _known:
        kept = _read(path)
        if kept is None:
            kept, conclusive = run_probe()
            if conclusive:
                keep(kept, path)
        _known[str(path)] = kept
    return _known[str(path)]


def run_probe(command: Sequence[str] = COMMAND, *, timeout: float = TIMEOUT) -> tuple[Probe, bool]:
    """Run a probe, and return what it found and whether that is worth keeping."""
    prediction, failure, conclusive = run_trial(("fp32", "bf16"), command=command, timeout=timeout)
    if failure:
        return Probe("crashed", None, failure), conclusive
    try:
        ratio = round(float(prediction["fp32"]) / float(prediction["bf16"]), 2)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return Probe("crashed", None, "the trial gave no times"), True
    fast = ratio >= FASTER
    text = f"bf16 is {ratio:g} times as fast as fp32" + ("" if fast else f", less than {FASTER:g}")
    return Probe("fast" if fast else "slow", ratio, text), True


def run_trial(
    formats: Sequence[str], *, command: Sequence[str] = COMMAND, timeout: float = TIMEOUT
) -> tuple[dict[str, Any], str, bool]:
    """Train a small network in a child process.

    Returns:
        Seconds of a step by number format; what went wrong, empty if nothing did; and whether another trial would end
        in the same way, as far as can be known.
    """
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]  # also where itaml is not installed
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if getattr(sys, "frozen", False) and command is COMMAND:
        return {}, "a frozen program cannot start a trial", False
    try:
        done = subprocess.run(
            [*command, *formats],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us, and must not look like a crash
        )
    except subprocess.TimeoutExpired:
        return {}, f"the trial did not end within {timeout:g} seconds", True
    except (OSError, ValueError) as error:
        return {}, f"the trial could not be started ({error})", False
    return _understood(done)


def _understood(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, Any], str, bool]:
    if done.returncode < 0:
        name = _signal(-done.returncode)
        return {}, f"the trial was ended by {name}", name not in ENDED_BY_OTHERS
    try:
        prediction = json.loads(done.stdout.strip().splitlines()[-1])
        if done.returncode == 0:
            return dict(prediction["seconds"]), "", True
        return {}, f"the trial failed ({prediction['error']})", True
    except (IndexError, KeyError, TypeError, ValueError):
        return {}, f"the trial ended with exit code {done.returncode}", True


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def cache_file() -> Path:
    """Return the file that keeps this machine's outcome."""
    text = json.dumps(_machine(), sort_keys=True)
    return cache_folder() / "hardware" / f"bf16-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _machine() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "flags": sorted(cpu_flags()),
        "kernel": f"{platform.system()} {platform.release()}",
        "torch": torch.__version__,
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    }


def keep(probe: Probe, path: Path | None = None) -> None:
    """Write an outcome into the cache, if it can be written."""
    machine = {name: value for name, value in _machine().items() if name != "flags"}
    with suppress(OSError):  # read-only or full; the outcome then holds for this process
        write_json(path or cache_file(), {"format": FORMAT, **machine, **asdict(probe)})


def _read(path: Path) -> Probe | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["format"] != FORMAT or kept["outcome"] not in ("fast", "slow", "crashed"):
            return None
        ratio = kept["ratio"]
        return Probe(kept["outcome"], None if ratio is None else float(ratio), str(kept["reason"]))
    except (OSError, KeyError, TypeError, ValueError):
        return None  # none yet, or not one of ours
