"""ENOSPC, EIO and EACCES at every file operation: the message is true, the model is good, a run goes on to the bit."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks.harness import Outcome, Tally, in_batches, isolated, spread
from attacks.model_support import answers, copied, images, learn_third, learned
from attacks.run_support import begin, finished, register
from itaml.errors import ItamlError
from itaml.modelstore.repair import rollback, verify
from support import same_bits

OPERATIONS = (
    "open", "write", "fsync", "close", "rename", "replace", "mkdir", "unlink", "rmdir", "chmod", "ftruncate", "lseek",
    "scandir", "listdir", "lstat", "stat", "fstat",
)  # fmt: skip
CODES = (errno.ENOSPC, errno.EIO, errno.EACCES)
Fault = tuple[str, int, int]  # what is done, the number of the operation that fails, the error


class Faults:
    """Counts file operations, and lets one of them fail."""

    def __init__(self, at: int | None, code: int) -> None:
        self.at, self.code, self.done = at, code, 0

    def install(self) -> None:
        """Wrap the operations, for the life of this process or until `remove`."""
        self.real = [(os, name, getattr(os, name)) for name in OPERATIONS] + [(io, "open", io.open)]
        for owner, name, real in self.real:
            setattr(owner, name, self._wrapped(name, real))

    def remove(self) -> None:
        """Put the real operations back."""
        for owner, name, real in self.real:
            setattr(owner, name, real)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.done += 1
            if self.done - 1 != self.at:
                return real(*args, **options)
            if name == "close":
                real(*args, **options)  # the file is closed in any case
            raise OSError(self.code, os.strerror(self.code), *map(str, args[:1]))

        return call


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Try every operation of a learn, a rollback, a prediction and a run with every error, or a share of them."""
    tally = Tally()
    register()
    original, run = learned(folder / "original"), folder / "run"
    images((3,)), images((0, 1, 2, 3), limit=3)
    begin(run)
    expected = {"run": finished(run), "predict": answers(original)}
    places: list[Fault] = []
    for what in ("learn", "rollback", "predict", "run"):
        count = isolated(lambda what=what: counted(what, original, folder / "counting")).value  # type: ignore[misc]
        places += [(what, at, code) for at in range(count) for code in CODES]

    def act(fault: Fault) -> Outcome:
        return trial(fault, original, folder / "copy", expected)

    in_batches(spread(places, trials), act, tally, size=25, seconds=300)
    return tally


def change(what: str, path: Path) -> Any:
    """Do one of the four things."""
    return {"learn": learn_third, "rollback": rollback, "predict": answers, "run": begin}[what](path)


def counted(what: str, original: Path, path: Path) -> int:
    """Return how many file operations something takes."""
    path = path.with_name(f"counted {what}")
    if what != "run":
        copied(original, path)
    faults = Faults(None, 0)
    faults.install()
    change(what, path)
    faults.remove()
    return faults.done


def trial(fault: Fault, original: Path, path: Path, expected: dict[str, Any]) -> Outcome:
    """Do something with one failing operation, and judge what was said and what is there."""
    what, at, code = fault
    if what == "run":
        path = path.with_name(f"run {at} {code}")
    else:
        copied(original, path)
    faults, said, found = Faults(at, code), "", None
    faults.install()
    try:
        found = change(what, path)
    except (ItamlError, OSError) as error:  # the command line prints either in one line
        said = " ".join(str(error).split())
    finally:
        faults.remove()
    where = f"{what}, operation {at}, {errno.errorcode[code]}: {said}"
    why = {"predict": _predicted, "run": _run}.get(what, _changed)(what, path, said, found, expected)
    return ("refused" if said else "done"), None if why is None else f"{where}: {why}"


def _changed(what: str, path: Path, said: str, found: Any, expected: dict[str, Any]) -> str | None:
    """Judge a learn or a rollback: the version in use is what was said."""
    old, new = 2, 3 if what == "learn" else 1
    version = int(answers(path)[0])
    problems = verify(path)[1]
    if problems:
        return f"verify found {problems}"
    if not said:
        return None if version == new else f"no error, but version {version} is in use"
    if version == new and f"version {new} is in use now" not in said:
        return f"version {version} is in use, which was not said"
    if version == old and "is in use now" in said:
        return "the old version is in use, and the message says otherwise"
    return None if version in (old, new) else f"version {version} is in use"


def _predicted(what: str, path: Path, said: str, found: Any, expected: dict[str, Any]) -> str | None:
    if not said and found != expected["predict"]:
        return "other predictions"
    return None if answers(path) == expected["predict"] else "the model has changed"


def _run(what: str, path: Path, said: str, found: Any, expected: dict[str, Any]) -> str | None:
    begin(path)
    return None if same_bits(finished(path), expected["run"]) else "the run ends in other numbers"
