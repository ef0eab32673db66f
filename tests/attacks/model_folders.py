"""Model folders from strangers: every command on them ends soon, in one sentence or well, and harms nothing outside."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

from attacks.command_lines import execute, judged
from attacks.folder_makers import FILES, TEXTS, THINGS, put_thing, wrong_record, wrong_state, wrong_tensors
from attacks.harness import Tally, import_everything, in_parallel, isolated
from attacks.model_support import copied, learned
from modelstore_support import write_digits

PRECIOUS = "all my work"
COMMANDS = (["info", "m"], ["verify", "m"], ["predict", "m", "images"], ["learn", "m", "more"], ["rollback", "m"])


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Make hostile copies of a model and run every command on each."""
    import_everything()
    original = learned(folder / "original")
    write_digits(folder / "digits", {"more": (4,), "rest": (5,)}, test=10)
    return in_parallel(
        trials, lambda numbers, place, own: attempts(numbers, original, folder / "digits", place, own), folder, draw
    )


def attempts(numbers: Sequence[int], original: Path, digits: Path, folder: Path, draw: random.Random) -> Tally:
    """Make some of the hostile copies."""
    tally = Tally()
    for number in numbers:
        root = folder / f"x{number}"
        root.mkdir()
        name = prepare(original, root, digits, number, draw)
        for command in draw.sample(COMMANDS, len(COMMANDS)):
            words = [*command, *(["--precision", "fp32"] if command[0] in ("predict", "learn") else [])]
            words += ["--epochs", "1"] if command[0] == "learn" else []
            ended = isolated(lambda words=words, root=root: execute(words, root / "x", interrupt=15.0))  # type: ignore[misc]
            why = ended.wrong() if ended.how != "value" else judged(*ended.value)
            why = why or (f"took {ended.megabytes:.0f} MB" if ended.megabytes > 600 else None)
            why = why or (None if (root / "precious.txt").read_text() == PRECIOUS else "a file outside was changed")
            if why:
                break
        tally.add(f"{name}: {command[0]}", why, "one sentence or well")
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(0o600)
    return tally


def prepare(original: Path, root: Path, digits: Path, number: int, draw: random.Random) -> str:
    """Make a hostile copy of a model at `root/x/m`, with images beside it; say what is hostile about it."""
    (root / "precious.txt").write_text(PRECIOUS)
    (root / "x").mkdir()
    model = copied(original, root / "x" / "m")
    (root / "x" / "images").symlink_to(digits / "test")
    (root / "x" / "more").symlink_to(digits / "more")
    files = (*FILES, str(sorted((model / "tables").iterdir())[0].relative_to(model)))
    things = [(file, thing) for file in (*files, "versions", "versions/000001", "tables") for thing in THINGS]
    texts = [(file, text) for file in files for text in TEXTS]
    kind = number % 5
    if kind == 0:
        file, thing = things[(number // 5) % len(things)]
        if (model / file).is_dir():
            (model / file).rename(root / "x" / "away")
        put_thing(model / file, root / "precious.txt", thing)
        return f"{thing} as {file}"
    if kind == 1:
        file, text = texts[(number // 5) % len(texts)]
        (model / file).write_bytes(text)
        return f"{text[:20]!r} as {file}"
    return (wrong_record, wrong_state, wrong_tensors)[kind - 2](model, draw) + f" {number}"


assert os.name == "posix", "attacks fork"
