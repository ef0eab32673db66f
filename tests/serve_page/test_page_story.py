"""The page over a real `itaml serve`: teach two classes, name, correct, teach again, roll back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser_support import SCREENS, Visit, axe_source, needs_chromium
from itaml.modelstore.image_classifier import ImageClassifier

pytest.importorskip("fastapi")
pytestmark = [pytest.mark.slow, needs_chromium]
Photos = dict[str, list[Path]]


TOKEN = "token-of-the-tests"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """Run `itaml serve` over an empty model of small images; return the address that it prints."""
    model, log = tmp_path / "objects", tmp_path / "log"
    ImageClassifier.create(model, method="lda", backbone="pixels", image_size=16, memory=200)
    command = [sys.executable, "-m", "itaml", "serve", str(model), "--port", "0", "--token", TOKEN]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:[1-9]\d*", log.read_text())
        if found:
            return found[0] + "/"
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(f"itaml serve did not print its address: {log.read_text()}")


def _check(window: Any, state: str) -> None:
    window.screenshot(f"story-{state}")
    assert window.overflow() == 0
    assert window.small_targets() == []
    if axe_source() is not None:
        assert window.violations() == []


def _teach_two_classes(window: Any, page: Any, photos: Photos) -> None:
    """Teach mugs and leaves; the token is asked for by the check of the first photos."""
    window.go("teach")
    page.fill("#class-field", "mug")
    window.add("teach", [*photos["mug"][:8], photos["broken"][0]])
    page.fill("#token-field", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".mark.unreadable")
    page.fill("#class-field", "leaf")
    window.add("teach", photos["leaf"][:8])
    page.wait_for_selector(".class-panel[aria-label=leaf]")
    page.wait_for_selector(".start .spinner", state="detached")
    _check(window, "collected")
    page.click("[data-key=teach]")
    page.wait_for_selector(".ended.done", timeout=60_000)
    assert "New: leaf and mug." in page.locator(".result-line").text_content()
    assert page.locator("#model-line").text_content() == "version 1 · 2 classes"
    _check(window, "learned")


def _name_and_correct(window: Any, page: Any, photos: Photos) -> None:
    """Name a mug and a fish, which the model cannot know, and say that it is a fish."""
    window.go("name")
    window.add("name", [photos["mug"][9], photos["fish"][0]])
    page.wait_for_selector(".card.known, .card.unknown")
    page.wait_for_selector(".summary .spinner", state="detached")
    assert page.locator(".card .verdict .class-name").first.text_content() == "mug"
    page.click(".card >> nth=1 >> text=Another class…")
    page.fill("#right-class", "fish")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card.corrected")
    _check(window, "corrected")


def _teach_the_correction(window: Any, page: Any, photos: Photos) -> None:
    """Find the correction again after a reload, add photos to it, and teach it."""
    page.reload()
    page.wait_for_selector(".card.corrected")
    window.go("teach")
    page.wait_for_selector(".class-panel[aria-label=fish] .tile")
    page.set_input_files(".class-panel input[type=file]", [str(file) for file in photos["fish"][1:8]])
    page.wait_for_selector(".class-panel[aria-label=fish] .class-count:text('8 photos')")
    page.wait_for_selector(".start .spinner", state="detached")
    page.click("[data-key=teach]")
    page.wait_for_selector("#model-line:text('version 2 · 3 classes')", timeout=60_000)
    page.wait_for_selector(".ended.done >> text=New: fish.")
    assert page.locator(".ended tbody tr").count() == 4
    window.go("name")  # the same photos again, by the new version
    page.click("text=Name again")
    page.wait_for_selector(".card.changed >> text=Changed: was")
    assert page.locator(".card.changed .class-name").text_content() == "fish"


def _roll_back(window: Any, page: Any) -> None:
    """See what the model knows, and go back to the version before."""
    window.go("know")
    page.wait_for_selector(".mosaic.drawn img")
    assert page.locator(".class-card .class-name").all_text_contents() == ["leaf", "mug", "fish"]
    assert page.locator(".matrix tbody tr").count() == 3
    _check(window, "known")
    page.click("text=Go back")
    page.click("dialog .button.danger")
    page.wait_for_selector("#model-line:text('version 1 · 2 classes')")
    window.said("The model is back at version 1.")
    assert page.locator(".class-card .class-name").all_text_contents() == ["leaf", "mug"]


@pytest.mark.parametrize(("screen", "scheme"), SCREENS)
def test_teach_name_correct_teach_again_and_roll_back(
    chromium: Any, service: str, photos: Photos, screen: str, scheme: str
) -> None:
    window = Visit(chromium, service, screen, scheme)
    page = window.open()
    page.wait_for_selector("text=The model knows no class yet")
    _check(window, "empty")
    _teach_two_classes(window, page, photos)
    _name_and_correct(window, page, photos)
    _teach_the_correction(window, page, photos)
    _roll_back(window, page)
    window.close(expected=("401",))
