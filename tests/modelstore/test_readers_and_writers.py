"""Readers beside a writer: `verify`, `info` and `predict` say nothing false while versions come and go."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from itaml.errors import ItamlError
from itaml.modelstore import model_folder as folder
from itaml.modelstore import verification as check
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.model_folder import ModelFolder, Version
from itaml.modelstore.repair import rollback, verify
from itaml.modelstore.version_writer import changing, write
from modelstore_support import digits_of, tiny_model


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    path = tmp_path_factory.mktemp("readers") / "model"
    classifier = tiny_model(path)
    classifier.learn(*digits_of((0, 1)))
    classifier.learn(*digits_of((2,)))
    return path, ModelFolder(path).read()


def put(path: Path, version: Version) -> None:
    """Write the same model as the next version."""
    with changing(ModelFolder(path)):
        write(ModelFolder(path), version.manifest, version.state)


@contextmanager
def writing(path: Path, version: Version) -> Iterator[None]:
    """Write versions in another thread as fast as possible."""
    stop = threading.Event()

    def go() -> None:
        while not stop.is_set():
            put(path, version)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_readers_raise_no_false_alarm_beside_a_writer(learned: tuple[Path, Version], tmp_path: Path) -> None:
    path, version = shutil.copytree(learned[0], tmp_path / "model"), learned[1]
    with writing(path, version):
        for _ in range(40):
            assert verify(path)[1] == []
            info = ImageClassifier.open(path).info()
            assert len(info["classes"]) == 3
    assert ModelFolder(path).current().number > 3  # there was a writer


def interfere(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, action: Callable[[], None]) -> None:
    """Do something once, just before a function of a module is called."""
    real = getattr(module, name)
    done: list[bool] = []

    def call(*args: Any, **options: Any) -> Any:
        if not done:
            done.append(True)
            action()
        return real(*args, **options)

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize("name", ["read_bytes", "read_checked"])
def test_a_version_that_goes_while_it_is_verified_is_no_problem(
    learned: tuple[Path, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, version = shutil.copytree(learned[0], tmp_path / "model"), learned[1]

    def twice() -> None:
        put(path, version)
        put(path, version)

    interfere(monkeypatch, folder, name, twice)
    assert verify(path)[1] == []
    interfere(monkeypatch, folder, name, twice)
    assert len(ImageClassifier.open(path).classes) == 3


def test_a_rollback_while_a_model_is_read_is_no_damage(
    learned: tuple[Path, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(learned[0], tmp_path / "model")

    def back_and_on() -> None:
        rollback(path)
        put(path, learned[1])  # the same number with another record

    interfere(monkeypatch, folder, "read_checked", back_and_on)
    assert ImageClassifier.open(path).version == 2


def test_a_model_that_changes_all_the_time_is_not_called_damaged(
    learned: tuple[Path, Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(learned[0], tmp_path / "model")
    monkeypatch.setattr(check, "PAUSE", 0.0)
    signatures = iter(range(10_000))
    monkeypatch.setattr(check, "_signature", lambda _: next(signatures))
    (path / "versions" / "000001" / "model.json").unlink()
    with pytest.raises(ItamlError, match="is being changed all the time and could not be checked; try again later"):
        verify(path)


def test_real_damage_is_told_beside_a_writer(learned: tuple[Path, Version], tmp_path: Path) -> None:
    path = shutil.copytree(learned[0], tmp_path / "model")
    (path / "versions" / "000001" / "state.safetensors").write_bytes(b"x")
    with changing(ModelFolder(path)):
        assert "000001" in verify(path)[1][0]
