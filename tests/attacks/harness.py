"""What all attacks share: counting trials, and doing something in a child process that may crash, hang or be killed.

An attack is a function `attack(trials, folder, draw) -> Tally`. The same function runs with small counts in the fast
tests (`test_attacks.py`) and with large ones behind `make test-attacks` (`__main__.py`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import random
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import itaml
from itaml.errors import ItamlError

LONGEST_MESSAGE = 1500
Item = TypeVar("Item")


@dataclass
class Tally:
    """Trials of an attack: how many ended in which way, and a sentence for each that failed."""

    trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def passed(self, outcome: str) -> None:
        """Note a trial that ended as it may."""
        self.trials += 1
        self.outcomes[outcome] += 1

    def failed(self, why: str) -> None:
        """Note a trial that ended as it must not."""
        self.trials += 1
        self.outcomes["failed"] += 1
        self.failures.append(why)

    def add(self, name: str, why: str | None, outcome: str) -> None:
        """Note a trial: failed if there is a reason why."""
        if why is None:
            self.passed(outcome)
        else:
            self.failed(f"{name}: {why}")


class Attack(Protocol):
    """One attack."""

    def __call__(self, trials: int, folder: Path, draw: random.Random) -> Tally:
        """Try `trials` times, with files in `folder`."""


class Ended(NamedTuple):
    """How a child process ended: `value` (with what it returned), `refused`, `error`, `signal` or `hang`."""

    how: str
    value: Any = None
    megabytes: float = 0.0  # by which its peak memory grew

    def wrong(self, *, most_megabytes: float = 600.0) -> str | None:
        """Return why this end is a failure; None if the action returned or was refused in one sentence."""
        if self.how not in ("value", "refused"):
            return f"{self.how}: {self.value}"
        if self.how == "refused" and ("\n" in self.value or not self.value or len(self.value) > LONGEST_MESSAGE):
            return f"not one sentence: {self.value[:200]!r}"
        if self.megabytes > most_megabytes:
            return f"took {self.megabytes:.0f} MB"
        return None


def isolated(action: Callable[[], Any], *, seconds: float = 60.0) -> Ended:
    """Do something in a forked child and report how it ended; a child that does not end in time is killed.

    The child returns JSON through a pipe. An `ItamlError` is a refusal; anything else that is raised is an error.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        os.setpgid(0, 0)
        _report(action, send)
    os.close(send)
    data, ended = _receive(receive, seconds)
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what it has started
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return Ended("hang", f"not over after {seconds:.0f} seconds")
    if os.WIFSIGNALED(status):
        return Ended("signal", signal.Signals(os.WTERMSIG(status)).name)
    return Ended(*json.loads(data)) if data else Ended("error", f"exit code {os.WEXITSTATUS(status)} without a word")


def _report(action: Callable[[], Any], send: int) -> None:
    """Run the action and leave the process, whatever happens."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = _peak()
        try:
            ended = ("value", action())
        except ItamlError as error:
            ended = ("refused", str(error))
        except BaseException as error:
            ended = ("error", "".join(traceback.format_exception(error))[-1500:])
        data = json.dumps([*ended, _peak() - before]).encode()
        with os.fdopen(send, "wb") as pipe:
            pipe.write(data)
        code = 0
    finally:
        os._exit(code)


def _receive(receive: int, seconds: float) -> tuple[bytes, bool]:
    """Return what arrives on a pipe until it is closed, and whether that was in time; pauses of ours do not count."""
    parts: list[bytes] = []
    with os.fdopen(receive, "rb", buffering=0) as pipe:
        while seconds > 0:
            start = time.monotonic()
            if select.select([pipe], [], [], 1.0)[0]:
                part = pipe.read(1 << 16)
                if not part:
                    return b"".join(parts), True
                parts.append(part)
            seconds -= min(time.monotonic() - start, 2.0)
    return b"".join(parts), False


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


Outcome = tuple[str, str | None]  # how a trial ended, and why that is a failure


def in_batches(
    items: Sequence[Item],
    act: Callable[[Item], Outcome],
    tally: Tally,
    *,
    size: int = 50,
    name: Callable[[Item], str] = str,
    most_megabytes: float = 600.0,
    seconds: float = 120.0,
) -> None:
    """Act on each item, many in one child; a batch whose child crashes, hangs or takes too much is repeated singly."""
    for start in range(0, len(items), size):
        batch = items[start : start + size]
        ended = isolated(lambda batch=batch: [act(item) for item in batch], seconds=seconds)  # type: ignore[misc]
        wrong = ended.wrong(most_megabytes=most_megabytes)
        if wrong is None and ended.how == "value":
            for item, (how, why) in zip(batch, ended.value, strict=True):
                tally.add(name(item), why, how)
        elif len(batch) > 1:
            in_batches(batch, act, tally, size=1, name=name, most_megabytes=most_megabytes, seconds=seconds)
        else:
            tally.add(name(batch[0]), wrong or f"{ended.how}: {ended.value}", ended.how)


Work = Callable[[Sequence[int], Path, random.Random], Tally]


def in_parallel(trials: int, work: Work, folder: Path, draw: random.Random) -> Tally:
    """Divide numbered trials among `Jobs.count` processes, each with a folder and a generator of its own.

    The generators depend on the number of processes, so the same trials are repeated with the same number only.
    """
    tally, children = Tally(), list[tuple[Child, Path]]()
    for job in range(Jobs.count):
        place, numbers = folder / f"job {job}", range(job, trials, Jobs.count)
        place.mkdir()
        own = random.Random(draw.getrandbits(64))
        if Jobs.count == 1:
            return work(numbers, place, own)
        report = folder / f"report {job}.json"
        children.append((start_child(lambda: _written(work(numbers, place, own), report)), report))  # noqa: B023
    for child, report in children:
        child.join()
        if not report.exists():
            tally.failed("a process of the attack ended without a word")
            continue
        found = json.loads(report.read_text())
        tally.trials += found["trials"]
        tally.outcomes.update(found["outcomes"])
        tally.failures += found["failures"]
    return tally


class Jobs:
    """How many processes an attack may use at once."""

    count = 1


def _written(tally: Tally, report: Path) -> None:
    report.write_text(json.dumps({"trials": tally.trials, "outcomes": tally.outcomes, "failures": tally.failures}))


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Return at most `count` of the items, spread evenly over them."""
    return [items[number * len(items) // count] for number in range(count)] if count < len(items) else list(items)


def killed(action: Callable[[], Any], *, after: Callable[[int], None]) -> bool:
    """Do something in a forked child, kill it when `after` (given its process id) returns; say whether it was done."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            quiet()
            action()
            code = 0
        finally:
            os._exit(code)
    after(child)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


@dataclass(frozen=True)
class Child:
    """A process that was started and goes on by itself."""

    pid: int

    def join(self) -> None:
        """Wait for its end."""
        os.waitpid(self.pid, 0)


def start_child(action: Callable[[], Any]) -> Child:
    """Do something in a forked child, without waiting for it."""
    child = os.fork()
    if child == 0:
        try:
            quiet()
            action()
        finally:
            os._exit(0)
    return Child(child)


def import_everything() -> None:
    """Import all our modules and what they import, so that forked children do not."""
    for found in pkgutil.walk_packages(itaml.__path__, "itaml."):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(found.name)


def quiet() -> None:
    """Send what a child prints to nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in (1, 2):
        os.dup2(nowhere, handle)
