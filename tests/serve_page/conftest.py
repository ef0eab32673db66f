"""A browser for the tests of the page, a fake service, and generated photos."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Run Chromium for all tests of the page."""
    from browser_support import browser

    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Write ten photos of each kind; `odd` and `broken` have one file, and mean this to the fake service."""
    from generated_photos import KINDS, jpeg, write_photos

    folder = tmp_path_factory.mktemp("photos")
    files = write_photos(folder, {kind: range(10) for kind in KINDS}, side=96)
    files["odd"] = [folder / "odd-01.jpg"]
    files["odd"][0].write_bytes(jpeg("fish", 50, 96))
    files["broken"] = [folder / "broken-01.jpg"]
    files["broken"][0].write_bytes(b"not an image")
    return files


@pytest.fixture
def fake() -> Iterator[Any]:
    """Run a fake service with five classes in three tasks."""
    pytest.importorskip("fastapi")
    from fake_service import FakeService, running

    with running(FakeService({"mug": 1, "apple": 1, "leaf": 2, "boat": 2, "house": 3})) as server:
        yield server


@pytest.fixture
def visit(chromium: Any, fake: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a window on the fake service; all are closed and judged at the end."""
    from browser_support import Visit

    opened: list[tuple[Any, tuple[str, ...]]] = []

    def new(screen: str = "desktop", scheme: str = "light", expected: tuple[str, ...] = ()) -> Any:
        opened.append((Visit(chromium, fake.address, screen, scheme), expected))
        return opened[-1][0]

    yield new
    for window, expected in opened:
        window.close(expected)
