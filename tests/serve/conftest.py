"""A service in a thread on a free port, over a small model of digits made for the tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from serve_support import Running, make_model, running


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of the digits 0 to 3 in two tasks; tests copy it."""
    return make_model(tmp_path_factory.mktemp("serve") / "digits")


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "digits"))


@pytest.fixture
def start(model: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts a service over a copy of the model; it is stopped after the test."""
    started: list[Running] = []

    def begin(**options: Any) -> Running:
        started.append(running(model, **options))
        return started[-1]

    yield begin
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def reader(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Return a client of a service that no test changes."""
    service = running(Path(shutil.copytree(original, tmp_path_factory.mktemp("reading") / "digits")))
    yield service.client
    service.stop()
