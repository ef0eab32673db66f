"""Open the page of `itaml serve` in Chromium, and watch it: errors in the console, requests to other places."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
SCREENS = [(screen, scheme) for screen in WIDTHS for scheme in SCHEMES]
PHOTOS = "input[type=file][multiple]:not([webkitdirectory])"  # of the tab that is shown
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed, so the page is not opened in a browser"
)


@contextmanager
def browser() -> Iterator[Any]:
    """Run Chromium for the time of a block."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


def until(page: Any, condition: str) -> None:
    """Wait until a JavaScript expression is true; the page's own policy forbids the waiting of playwright."""
    for _ in range(300):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"the page did not come to: {condition}")


class Visit:
    """A page in a window of its own; what it complains about and what it asks for is noted."""

    def __init__(self, chromium: Any, address: str, screen: str = "desktop", scheme: str = "light") -> None:
        width, height = WIDTHS[screen]
        phone = screen == "phone"
        self.screen, self.scheme, self.address = screen, scheme, address
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=phone, is_mobile=phone,
            locale="en-GB", timezone_id="UTC", accept_downloads=True,
        )  # fmt: skip
        self.context.set_default_timeout(15_000)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url))

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("blob", "data") and parts.netloc != urlsplit(self.address).netloc:
            self.foreign.append(url)

    def open(self, tab: str = "name") -> Any:
        """Open a tab and wait until the model is there; return the page."""
        self.page.goto(f"{self.address}#{tab}")
        until(self.page, "document.getElementById('model-line').textContent !== 'Loading the model…'")
        return self.page

    def go(self, tab: str) -> None:
        """Click on a tab."""
        self.page.click(f"[data-tab={tab}]")
        self.page.wait_for_selector(f"#tab-{tab}:not([hidden])")

    def add(self, tab: str, files: list[Path] | list[dict[str, Any]]) -> None:
        """Give photos to the file chooser of a tab."""
        given = [file if isinstance(file, dict) else str(file) for file in files]
        self.page.set_input_files(f"#tab-{tab} .zone {PHOTOS}", given)

    def said(self, text: str) -> None:
        """Wait until the page says `text` in a message."""
        self.page.wait_for_selector(f".toast >> text={text}")

    def screenshot(self, name: str) -> None:
        """Keep a screenshot in the folder `ITAML_SCREENSHOTS`, if it is set."""
        folder = os.environ.get("ITAML_SCREENSHOTS")
        if folder:
            self.page.evaluate("scrollTo(0, 0)")
            self.page.evaluate("for (const one of document.images) one.loading = 'eager'")
            until(self.page, "[...document.images].every((one) => one.complete)")
            self.page.wait_for_timeout(300)  # bars and colours are in transition
            path = Path(folder).absolute() / f"serve-{name}-{self.screen}-{self.scheme}.png"
            self.page.screenshot(path=str(path), full_page=True)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the screen."""
        width: int = self.page.evaluate("Math.max(0, document.documentElement.scrollWidth - innerWidth)")
        return width

    def small_targets(self) -> list[str]:
        """Return visible controls that are smaller than 44 pixels in one direction; links in a sentence may be."""
        found: list[str] = self.page.evaluate(_SMALL_TARGETS)
        return found

    def violations(self) -> list[str]:
        """Return what axe-core has found, as rule and element."""
        axe = axe_source()
        assert axe is not None
        self.page.evaluate(axe)
        self.page.wait_for_timeout(200)  # colours of buttons are in transition for 0.12 seconds
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(said => said.violations)")
        return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]

    def close(self, expected: tuple[str, ...] = ()) -> None:
        """Close the window; fail if the page has complained or asked another place for something."""
        self.context.close()
        errors = [error for error in self.errors if not any(part in error for part in expected)]
        assert errors == []
        assert self.foreign == []


_SMALL_TARGETS = """() => {
  const controls = [...document.querySelectorAll("button, a[href], input:not([type=file]), select, summary")];
  const seen = controls.filter((one) => one.checkVisibility() && !one.matches(".skip, .button.link"));
  const size = (one) => (one.type === "checkbox" ? one.closest("label") : one).getBoundingClientRect();
  return seen.filter((one) => Math.min(size(one).width, size(one).height) < 43.9)
    .map((one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 30)}`);
}"""


def axe_source() -> str | None:
    """Return the source of axe-core, from the file `ITAML_AXE` or from node_modules; None if it is not there."""
    places = [Path(os.environ["ITAML_AXE"])] if os.environ.get("ITAML_AXE") else []
    places += [folder / "node_modules/axe-core/axe.min.js" for folder in Path(__file__).resolve().parents]
    found = next((place for place in places if place.is_file()), None)
    return found.read_text(encoding="utf-8") if found else None


needs_axe = pytest.mark.skipif(
    axe_source() is None,
    reason="axe-core is not there, so accessibility is not checked: npm install axe-core, or set ITAML_AXE to its file",
)
