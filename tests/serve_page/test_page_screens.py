"""Every state of the page fits desktop and phone, in light and dark, and is accessible; screenshots to look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser_support import SCREENS, needs_axe, needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]
Photos = dict[str, list[Path]]
REFUSED = ("401", "500", "503", "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")


def _walk(window: Any, fake: Any, photos: Photos, look: Callable[[str], None]) -> None:
    """Bring the page from state to state, and call `look` in each."""
    page = window.open()
    look("name-empty")
    files = [photos[kind][number] for kind, number in (("mug", 0), ("mug", 7), ("leaf", 2), ("odd", 0), ("broken", 0))]
    window.add("name", files)
    page.wait_for_selector(".card.unreadable")
    page.click(".card.unknown .choice")
    page.check("#mode-continuum", force=True)
    page.wait_for_selector(".card.changed")
    look("name-group")
    page.click("text=Another class… >> nth=0")
    look("name-dialog")
    page.keyboard.press("Escape")
    page.check("#mode-stream", force=True)
    page.wait_for_selector(".group")
    look("name-stream")
    window.go("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"] + photos["broken"])
    window.add("teach", photos["boat"][:3])
    page.wait_for_selector("text=Give every group of photos a class.")
    look("teach-unnamed")
    page.fill(".class-panel[aria-label='Photos without a class'] input[type=text]", "boat")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-key=teach]:not([disabled])")
    fake.hold = "features"
    page.click("[data-key=teach]")
    page.wait_for_selector(".phases .now:text('Features')")
    look("teach-learning")
    fake.hold = None
    page.wait_for_selector(".ended.done")
    look("teach-learned")
    window.go("know")
    page.wait_for_selector(".mosaic.drawn img")
    look("know")
    page.click(".class-card >> nth=0")
    page.wait_for_selector(".exemplars img")
    look("know-class")
    page.click("dialog >> text=Forget")
    look("know-forget")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.click(".versions >> text=Go back")
    page.wait_for_selector("dialog[open]")
    look("know-rollback")
    page.keyboard.press("Escape")


def _troubles(window: Any, server: Any, photos: Photos, look: Callable[[str], None]) -> None:
    """Bring the page from trouble to trouble: nothing learned, errors, a server that is gone."""
    fake = server.fake
    kept = fake.classes, fake.version, fake.history
    fake.classes, fake.version, fake.history = {}, 0, []
    page = window.open("know")
    page.wait_for_selector("#know-body >> text=The model knows no class yet")
    look("know-empty")
    window.go("teach")
    page.wait_for_selector("#tab-teach >> text=The first lesson")
    look("teach-empty")
    fake.classes, fake.version, fake.history = kept
    fake.fail["/v1/model"] = (503, "The model is being loaded.")
    page.reload()
    window.go("know")
    page.wait_for_selector("#know-body >> text=The model is being loaded.")
    look("know-error")
    fake.fail.clear()
    page.click("#know-body >> text=Try again")
    page.wait_for_selector(".class-card")
    window.go("name")
    server.stop()
    window.add("name", [photos["mug"][0]])
    page.wait_for_selector("#banner >> text=The server does not answer.")
    look("name-offline")
    server.start()


@pytest.mark.parametrize(("screen", "scheme"), SCREENS)
def test_every_state_fits_the_screen(
    visit: Callable[..., Any], fake: Any, photos: Photos, screen: str, scheme: str
) -> None:
    window = visit(screen, scheme)
    found: dict[str, Any] = {}

    def look(state: str) -> None:
        window.screenshot(state)
        found[state] = (window.overflow(), window.small_targets())

    _walk(window, fake.fake, photos, look)
    window = visit(screen, scheme, expected=REFUSED)
    _troubles(window, fake, photos, look)
    assert len(found) == 15
    assert found == dict.fromkeys(found, (0, []))


@needs_axe
@pytest.mark.parametrize(("screen", "scheme"), SCREENS)
def test_every_state_is_accessible(
    visit: Callable[..., Any], fake: Any, photos: Photos, screen: str, scheme: str
) -> None:
    window = visit(screen, scheme)
    found: dict[str, list[str]] = {}
    _walk(window, fake.fake, photos, lambda state: found.update({state: window.violations()}))
    other = visit(screen, scheme, expected=REFUSED)
    _troubles(other, fake, photos, lambda state: found.update({state: other.violations()}))
    assert {state: said for state, said in found.items() if said} == {}
