"""Random command lines: every one ends soon with an exit code of ours and, if it failed, one sentence.

The commands and their options are read from the command line's own description, so a new option is attacked from the
day it exists. Values are what a tired, a mistaken and a hostile user might write.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer.main
from PIL import Image

from attacks.harness import Tally, import_everything, in_parallel, isolated
from attacks.model_support import learned
from itaml.cli.main import _run, app, prepare_process

CODES = {0, 1, 2, 130, 141}
INTERRUPT = 2.0  # seconds after which Ctrl-C is pressed, and again every second
RARE = {"compare", "ablate", "tune", "doctor"}  # start processes of their own, which takes seconds
ESCAPE = "<colours of somebody else>"
NEVER = {"serve"}  # runs until it is stopped
NUMBERS = (
    "0", "1", "2", "7", "-1", "-0", "1.5", "1e9", "1e999", "nan", "inf", "0x10", "٣", "99999999999999999999",
    "2147483648", "99999999999", "9" * 5000, "", " ", "abc", "1,2", "[1]", "true", "--", "1_000",
)  # fmt: skip
TEXTS = (
    "", " ", "x", "itaml", "best", "paper", "small", "folder:images", "folder:odd", "folder:missing", "mnist-5",
    "digits-9", "mlp", "resnet18", "cpu", "cuda", "fp32", "bf16", "auto", "csv", "markdown", "jsonl", "json", "latex",
    "fail", "é", "日本", "\U0001f408", "\x1b[31mred", "a\nb", "a\tb", "\udcff\udcfe", "../..", "%s%n", "{}", "$(id)",
    "=1+1", "[" * 5000, "{" * 3000, "9" * 5000, "a" * 10_000, "-", "-x", "--set", "None", "null", "\\", "'", '"', "*",
    "**", "[!",
)  # fmt: skip
SETS = (
    "epochs=1", "epochs=0", "epochs=-1", "lr=nan", "lr=1e400", "lr=[", "lr=" + "[" * 5000, "lr=" + "9" * 5000, "=",
    "a=", "epochs=[1,2]", "epochs={}", "memory=true", "memory=null", "seeds.init=1", "seeds.x=1", "backbone=mlp",
    "backbone=x", "epochs", "lr=0.1,0.2", "hidden=[1]", "x=" + '{"a":' * 500, "epochs=1e3", "epochs=" + "1" * 400,
)  # fmt: skip
PATHS = (
    "images", "odd", "images/a", "images/a/0.png", "model", "run", "missing", "file.txt", "pipe", "empty", "", ".", "/",
    "/dev/null", "/dev/full", "/proc/self/mem", "a" * 300, "x/" * 200, "\udcff", "é", "new model", "--", "-", "~",
    "loop", "images/*.png", "strange", "dangling", "run/result.json", "model/versions", "*",
)  # fmt: skip


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Run random command lines in a folder with a model, a run, images and odd files."""
    import_everything()
    learned(folder / "warm")  # loads what only training loads, before the forks
    return in_parallel(trials, attempts, folder, draw)


def attempts(numbers: Sequence[int], folder: Path, draw: random.Random) -> Tally:
    """Run some of the command lines, one after another in one folder."""
    tally = Tally()
    (folder / "x").mkdir()
    root = folder / "x"
    write_files(root)
    for words in lines(len(numbers), draw):
        ended = isolated(lambda words=words: execute(words, root), seconds=120)  # type: ignore[misc]
        wrong = ended.wrong(most_megabytes=3000) if ended.how != "value" else judged(*ended.value)
        shown = " ".join(word if len(word) < 60 else word[:60] + "..." for word in words)
        tally.add(ascii(shown), wrong, f"exit code {ended.value[0]}" if ended.how == "value" else ended.how)
    return tally


def execute(words: list[str], root: Path, *, interrupt: float = INTERRUPT) -> tuple[int, str, str]:
    """Run a command line as a process of its own would, and return its code, output and errors."""
    os.chdir(root)
    outs = [root.parent / "out.txt", root.parent / "err.txt"]
    for handle, path in zip((1, 2), outs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (as Python opens it)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, interrupt, 1.0)
    prepare_process()
    code = _run(words)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    texts = [path.read_bytes()[-20_000:].decode("utf-8", "surrogateescape") for path in outs]
    return code, *(ascii(text[-3000:].replace("\x1b[31m", ESCAPE)) for text in texts)  # type: ignore[return-value]


def judged(code: int, out: str, err: str) -> str | None:
    """Return what is wrong with how a command line ended."""
    if code not in CODES:
        return f"exit code {code}"
    if "Traceback" in out + err:
        return f"a traceback: {err[-600:]}"
    if ESCAPE in out + err:
        return "colours of somebody else on the terminal"
    if code in (1, 2) and err.count("error:") < 1 and "\\n" not in out:
        return f"exit code {code} without a sentence: {err[-300:]}"
    return None


def lines(trials: int, draw: random.Random) -> Iterator[list[str]]:
    """Yield random command lines."""
    commands = list(described(typer.main.get_command(app), []))
    weights = [0.01 if names[0] in RARE else 0.0 if names[0] in NEVER else 1.0 for names, _ in commands]
    for _ in range(trials):
        names, parameters = draw.choices(commands, weights)[0]
        parts = [words(parameter, draw) for parameter in parameters if draw.random() < likely(parameter)]
        draw.shuffle(parts)
        extra = [draw.choice(TEXTS + PATHS)] if draw.random() < 0.1 else []
        line = [*names, *chain.from_iterable(parts), *extra]
        if names in (["run"], ["learn"]):
            line += ["--set", "epochs=1", "--precision", "fp32"]
        yield [word.replace("\0", "") for word in line]


def described(command: Any, names: list[str]) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield the names and the parameters of every command."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from described(inner, [*names, name])
    else:
        yield names, [one for one in command.params if one.name != "help"]


def likely(parameter: Any) -> float:
    """Return how probable it is that a parameter is given."""
    return 0.9 if is_argument(parameter) else 0.15


def is_argument(parameter: Any) -> bool:
    """Say whether a parameter is an argument and not an option."""
    return not parameter.opts[0].startswith("-")


def words(parameter: Any, draw: random.Random) -> list[str]:
    """Return a parameter with a random value, mostly of a kind that it could take."""
    value = draw.choice(pool(parameter) if draw.random() < 0.9 else TEXTS + NUMBERS + PATHS)
    if is_argument(parameter):
        return [value] * draw.choice((1, 1, 2))
    if getattr(parameter, "is_flag", False):
        return [draw.choice(parameter.opts)]
    return [draw.choice(parameter.opts), value]


def pool(parameter: Any) -> tuple[str, ...]:
    """Return the values that suit a parameter."""
    kind = str(getattr(parameter, "type", None) or getattr(parameter, "type_descriptor", "")).lower()
    if parameter.name in ("overrides", "set"):
        return SETS
    if "path" in kind:
        return PATHS
    return NUMBERS if "'int'" in kind or "integer" in kind or "float" in kind else TEXTS


def write_files(root: Path) -> None:
    """Make a folder with images of two classes, odd files, a model and a run that is damaged."""
    values = np.random.default_rng(0)
    for name in ("a", "b", "strange\x1b[31m", "é"):
        (root / "images" / name).mkdir(parents=True)
        for number in range(4):
            pixels = values.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "images" / name / f"{number}.png")
    (root / "odd" / "\udcff").mkdir(parents=True)  # a name that is not text
    Image.fromarray(values.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(root / "odd" / "\udcff" / "0.png")
    os.mkfifo(root / "images" / "a" / "pipe.png")
    (root / "images" / "a" / "bad.jpg").write_bytes(b"no image")
    (root / "file.txt").write_text("text")
    os.mkfifo(root / "pipe")
    (root / "empty").mkdir()
    (root / "loop").symlink_to(root / "loop")
    (root / "dangling").symlink_to(root / "nowhere")
    (root / "run").mkdir()
    events = ['{"event": "RunStarted"}', '{"event": "EpochDone", "task": "x"}', "[" * 100_000, "9" * 5000, "{}", "\x00"]
    (root / "run" / "events.jsonl").write_text("\n".join(events) + "\n")
    (root / "run" / "config.json").write_text("[" * 100_000)
    (root / "run" / "result.json").write_text(json.dumps({"format": 1, "tasks": "x"}))
    line = ["learn", "model", "images", "--epochs", "1", "--backbone", "mlp", "--precision", "fp32"]
    ended = isolated(lambda: execute(line, root, interrupt=900.0), seconds=1000)
    assert ended.how == "value", ended.value
    assert ended.value[0] == 0, ended.value
