"""Folders of images made from the embedded digits, and the command line in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from itaml.cli.main import main
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import SPLITS, Ran, write_digits


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("digits")
    write_digits(root, SPLITS)
    return root


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """Return a model that has learned two tasks; tests that change it copy it."""
    path = tmp_path_factory.mktemp("models") / "made"
    classifier = ImageClassifier.create(path, memory=200, epochs=6)
    classifier.learn(digits / "first")
    classifier.learn(digits / "second")
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
