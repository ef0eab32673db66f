"""Folders of pictures made from the embedded digits, and the command line in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from itaml.cli.main import main
from itaml.library.library import Library

SPLITS = {"first": (0, 1, 2, 3), "second": (4, 5, 6), "third": (7,)}  # uneven, the last a single class


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def write_digits(root: Path, splits: dict[str, tuple[int, ...]], *, test: int = 4) -> None:
    """Write `root/split/digit/*.png` for training, and every `test`-th picture into `root/test/digit`."""
    raw = load_digits()
    for number, (image, label) in enumerate(zip(raw.images, raw.target, strict=True)):
        split = next((name for name, members in splits.items() if int(label) in members), None)
        if split is not None:
            folder = root / ("test" if number % test == 0 else split) / f"digit {label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 255 / 16).round().astype(np.uint8)).save(folder / f"{number}.png")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("digits")
    write_digits(root, SPLITS)
    return root


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """Return a model that has learned two tasks; tests that change it copy it."""
    path = tmp_path_factory.mktemp("models") / "made"
    library = Library.create(path, memory=200, epochs=6)
    library.learn(digits / "first")
    library.learn(digits / "second")
    return path


@pytest.fixture
def itaml() -> Callable[..., Ran]:
    """Return a function that runs the program in this process, and gives its exit code and output."""

    def run(*words: object) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(word) for word in words])
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
        return Ran(code, out.getvalue(), err.getvalue())

    return run


def accuracy(library: Library, digits: Path, splits: tuple[str, ...]) -> float:
    """Return the share of test pictures of some splits that are named rightly."""
    names = [f"digit {label}" for split in splits for label in SPLITS[split]]
    files = [str(file) for name in names for file in sorted((digits / "test" / name).iterdir())]
    answers = library.predict(files)
    return sum(answer.label == Path(answer.file or "").parent.name for answer in answers) / len(answers)
