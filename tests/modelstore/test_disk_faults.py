"""ENOSPC, EIO and EACCES at every file operation: the message is true, and the model is good."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from itaml import storage
from itaml.errors import ItamlError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.model_folder import ModelFolder, Version
from itaml.modelstore.repair import rollback, verify
from itaml.modelstore.version_writer import changing, write
from modelstore_support import digits_of, tiny_model

OPERATIONS = (
    "open", "write", "fsync", "close", "rename", "replace", "mkdir", "unlink", "rmdir", "chmod", "ftruncate", "lseek",
    "scandir", "listdir", "lstat", "stat", "fstat",
)  # fmt: skip
CODES = (errno.ENOSPC, errno.EIO, errno.EACCES)


class Faults:
    """Counts file operations, and lets the n-th fail."""

    def __init__(self, at: int | None = None, code: int = 0) -> None:
        self.at, self.code, self.done = at, code, 0
        self.failed = ""

    @contextmanager
    def injected(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in OPERATIONS:
                patch.setattr(os, name, self._wrap(name, getattr(os, name)))
            yield

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.done += 1
            if self.done - 1 != self.at:
                return real(*args, **options)
            self.failed = name
            if name == "close":
                real(*args, **options)  # the file is closed in any case
            raise OSError(self.code, os.strerror(self.code), *map(str, args[:1]))

        return call


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    """Return a model at version 2, and a version to be written as its third."""
    path = tmp_path_factory.mktemp("faults") / "model"
    classifier = tiny_model(path)
    classifier.learn(*digits_of((0, 1)))
    classifier.learn(*digits_of((2,)))
    third = shutil.copytree(path, path.with_name("third"))
    ImageClassifier.open(third).learn(*digits_of((3,)))
    return path, ModelFolder(third).read()


def attempts(
    change: Callable[[Path], Any], model: Path, tmp_path: Path, *, every: bool = False
) -> Iterator[tuple[Path, Faults, ItamlError | None]]:
    """Yield the model after each change with a fault at every file operation: with one code in turn, or with each."""
    counting = Faults()
    with counting.injected():
        change(shutil.copytree(model, tmp_path / "counting"))
    assert counting.done > 30
    tried = [(at, code) for at in range(counting.done) for code in (CODES if every else [CODES[at % len(CODES)]])]
    for at, code in tried:
        faults, error = Faults(at, code), None
        path = shutil.copytree(model, tmp_path / f"at {at} {code}")
        try:
            with faults.injected():
                change(path)
        except ItamlError as caught:
            error = caught
        yield path, faults, error
        shutil.rmtree(path)


def check(path: Path, faults: Faults, error: ItamlError | None, *, old: int, new: int) -> None:
    """The model is good; it is the new version if nothing was raised, and otherwise what the message says."""
    where = f"{faults.failed} ({errno.errorcode[faults.code]}, operation {faults.at}): {error}"
    version = ImageClassifier.open(path).version
    if error is None:
        assert version == new, where
    else:
        assert "\n" not in str(error), where
        assert version == old or f"version {new} is in use now" in str(error), where
        assert version == new or "is in use now" not in str(error), where
    assert verify(path)[1] == [], where


@pytest.mark.skipif(os.name == "nt", reason="wraps the operations of Unix")
def test_writing_a_version_with_a_fault_at_every_file_operation(learned: tuple[Path, Version], tmp_path: Path) -> None:
    model, third = learned

    def change(path: Path) -> None:
        with changing(ModelFolder(path)):
            write(ModelFolder(path), third.manifest, third.state)

    raised = 0
    for path, faults, error in attempts(change, model, tmp_path):
        check(path, faults, error, old=2, new=3)
        raised += error is not None
        change(path)  # what a fault left is cleared away
        assert len(list((path / "versions").iterdir())) == 2
        assert sorted(file.name for file in path.iterdir()) == ["current.json", "lock", "versions"]
    assert raised > 20


@pytest.mark.skipif(os.name == "nt", reason="wraps the operations of Unix")
def test_rolling_back_with_a_fault_at_every_file_operation(learned: tuple[Path, Version], tmp_path: Path) -> None:
    for path, faults, error in attempts(rollback, learned[0], tmp_path):
        check(path, faults, error, old=2, new=1)


@pytest.mark.skipif(os.name == "nt", reason="wraps the operations of Unix")
def test_making_a_model_with_a_fault_at_every_file_operation(tmp_path: Path) -> None:
    counting = Faults()
    with counting.injected():
        tiny_model(tmp_path / "counting")
    for at in range(counting.done):
        faults, path = Faults(at, CODES[at % len(CODES)]), tmp_path / f"at {at}"
        try:
            with faults.injected():
                tiny_model(path)
        except ItamlError as error:
            assert "\n" not in str(error)  # noqa: PT017
        assert tiny_model(path, memory=77).version == 0, f"{faults.failed} at {at}"
        assert ImageClassifier.open(path).info()["memory"] == 77


@pytest.mark.parametrize("stage", ["replace", "rmtree"])
def test_an_error_after_the_switch_is_no_failure(
    learned: tuple[Path, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The folder cannot be synced, or the old version not removed: the new version is in use all the same."""
    path = shutil.copytree(learned[0], tmp_path / "model")
    classifier = ImageClassifier.open(path)

    def refuse(*args: Any, **options: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if stage == "replace":
        real = storage.sync_folder
        monkeypatch.setattr(storage, "sync_folder", lambda folder: refuse() if folder == path else real(folder))
    else:
        monkeypatch.setattr(os, "rmdir", refuse)
        monkeypatch.setattr(os, "unlink", refuse)
    classifier.learn(*digits_of((3,)), epochs=1)
    monkeypatch.undo()
    assert classifier.version == ImageClassifier.open(path).version == 3
    assert rollback(path) == (3, 2)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="wraps the operations of Unix")
def test_learning_and_rolling_back_with_every_fault_at_every_file_operation(
    learned: tuple[Path, Version], tmp_path: Path
) -> None:
    images, labels = digits_of((3,))

    def learn(path: Path) -> None:
        ImageClassifier.open(path).learn(images, labels, epochs=1)

    for path, faults, error in attempts(learn, learned[0], tmp_path / "learn", every=True):
        check(path, faults, error, old=2, new=3)
    for path, faults, error in attempts(rollback, learned[0], tmp_path / "rollback", every=True):
        check(path, faults, error, old=2, new=1)
