"""Make docs/figures/serve-page.webp: the Name tab of `itaml serve` over a model that has learned generated photos.

Run by `make serve-figure`; needs Chromium.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from browser_support import CHROMIUM, Visit, browser
from generated_photos import write_photos
from itaml.modelstore.image_classifier import ImageClassifier
from serve_support import Running, running

FIGURE = Path(__file__).parent.parent / "docs/figures/serve-page.webp"
TASKS = (("mug", "apple"), ("leaf", "boat"), ("house",))
NAMED = (("mug", 20), ("leaf", 27), ("fish", 26), ("boat", 23))
SIDE = 360  # pixels of a photo


def _service(folder: Path) -> Running:
    """Teach a model five classes, of which none is a fish, and serve it."""
    model = ImageClassifier.create(folder / "objects", memory=200)
    for number, kinds in enumerate(TASKS):
        write_photos(folder / f"task{number}", {kind: range(12) for kind in kinds}, SIDE)
        model.learn(folder / f"task{number}")
    return running(folder / "objects")


def _screenshot(chromium: Any, service: Running, folder: Path) -> bytes:
    photos = [
        write_photos(folder / "named", {kind: range(number, number + 1)}, SIDE)[kind][0] for kind, number in NAMED
    ]
    window = Visit(chromium, f"{str(service.client.base_url).rstrip('/')}/")
    page = window.open()
    window.add("name", photos)
    page.wait_for_selector(".card.known")
    page.wait_for_selector(".summary .spinner", state="detached")
    page.wait_for_selector(".card.waiting", state="detached")
    page.click(".card.unknown >> text=Another class…")
    page.fill("#right-class", "fish")
    page.keyboard.press("Enter")
    page.click("[aria-label='Close this message']")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    page.wait_for_selector(".card.corrected")
    page.evaluate("scrollTo(0, 0)")
    image: bytes = page.screenshot(full_page=True)
    window.close()
    return image


def main() -> int:
    """Write the figure; return the exit code."""
    if CHROMIUM is None:
        print("Chromium is not installed, so the page cannot be drawn", file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        service = _service(Path(name))
        try:
            data = _screenshot(chromium, service, Path(name))
        finally:
            service.stop()
    Image.open(io.BytesIO(data)).convert("RGB").save(FIGURE, "WEBP", quality=88, method=6)
    return 0


if __name__ == "__main__":
    sys.exit(main())
