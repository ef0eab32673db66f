"""The page in a browser: tabs, Know, tokens, lost connections, errors, keyboard, screens, accessibility."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser_support import needs_chromium

pytestmark = [pytest.mark.slow, needs_chromium]
Photos = dict[str, list[Path]]
REFUSED = ("401", "500", "503", "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")


def test_back_walks_through_tabs_and_focus_follows(visit: Callable[..., Any]) -> None:
    window = visit()
    page = window.open()
    window.go("teach")
    window.go("know")
    assert page.evaluate("document.activeElement.id") == "title-know"
    page.go_back()
    page.wait_for_selector("#tab-teach:not([hidden])")
    assert page.title() == "Teach · workshop"
    page.go_back()
    page.wait_for_selector("#tab-name:not([hidden])")
    assert page.get_attribute("[data-tab=name]", "aria-current") == "page"


def test_know_shows_classes_tasks_chart_confusion_and_versions(visit: Callable[..., Any]) -> None:
    window = visit()
    page = window.open("know")
    page.wait_for_selector(".mosaic.drawn img")
    assert page.locator(".task h3").all_text_contents()[0].startswith("Task 1 2 classes · 1 May 2026")
    assert page.locator(".class-card .class-name").all_text_contents() == ["mug", "apple", "leaf", "boat", "house"]
    assert page.get_attribute(".chart svg", "aria-label") == "Accuracy over 3 versions: from 95.8% to 93.4%."
    assert page.locator(".chart circle").count() == 3
    assert page.locator(".matrix tbody tr").count() == 5
    assert page.locator(".pairs li").first.text_content() == "mug taken for apple: 1 of 12"
    assert page.locator(".versions li.current .version-title").text_content() == "Version 3in use"
    assert page.locator(".versions >> text=Go back").count() == 1


def test_rename_merge_forget_and_rollback_ask_first(visit: Callable[..., Any], fake: Any) -> None:
    window = visit()
    page = window.open("know")
    page.click("[data-name=mug].class-card")
    page.click("dialog >> text=Rename")
    page.fill("#rename-field", "apple")
    page.click("dialog >> button >> text=Rename")
    assert "Merge the two instead" in (page.locator("#rename-help").text_content() or "")
    page.fill("#rename-field", "cup")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-name=cup].class-card")
    page.click("[data-name=leaf].class-card")
    page.click("dialog >> text=Forget")
    page.click("dialog >> text=Cancel")
    assert "leaf" in fake.fake.classes
    page.click("[data-name=leaf].class-card")
    page.click("dialog >> text=Forget")
    page.click("dialog .button.danger")
    page.wait_for_selector("[data-name=leaf].class-card", state="detached")
    page.click("[data-name=boat].class-card")
    page.click("dialog >> text=Merge")
    page.select_option("#merge-field", "house")
    page.click("dialog .button.danger")
    page.wait_for_selector("[data-name=boat].class-card", state="detached")
    page.click("text=Go back")
    page.click("dialog .button.danger")
    page.wait_for_selector("#model-line >> text=version 5")
    posts = [path for method, path in fake.fake.requests if method == "POST"]
    assert posts == ["/v1/classes/mug/rename", "/v1/classes/leaf/forget", "/v1/classes/boat/merge", "/v1/rollback"]


def test_a_token_is_asked_for_once_and_a_wrong_one_is_refused(
    visit: Callable[..., Any], fake: Any, photos: Photos
) -> None:
    fake.fake.token = "s3cret"
    window = visit(expected=REFUSED)
    page = window.open("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"][:3])
    page.fill("#token-field", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The server did not accept this token. Enter it again.")
    page.fill("#token-field", "s3cret")
    page.keyboard.press("Enter")
    page.click("[data-key=teach]")
    page.wait_for_selector(".ended.done")
    page.reload()
    page.wait_for_selector("text=Remove the token from this tab")
    assert page.evaluate("[sessionStorage.token, localStorage.length, document.cookie]") == ["s3cret", 0, ""]


def test_a_declined_token_leaves_everything_in_place(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.token = "s3cret"
    window = visit(expected=REFUSED)
    page = window.open("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"][:3])
    page.wait_for_selector("dialog")
    page.keyboard.press("Escape")
    page.wait_for_selector("text=The photos are not checked yet.")
    assert page.locator(".tile").count() == 3


def test_a_server_that_protects_reading_shows_thumbnails_after_the_token(visit: Callable[..., Any], fake: Any) -> None:
    fake.fake.token, fake.fake.protect_reading = "s3cret", True
    window = visit(expected=REFUSED)
    window.page.goto(f"{window.address}#know")
    window.page.fill("#token-field", "s3cret")
    window.page.keyboard.press("Enter")
    window.page.wait_for_selector(".mosaic.drawn img[src^=blob]")


def test_a_lost_server_is_announced_and_work_goes_on_when_it_is_back(
    visit: Callable[..., Any], fake: Any, photos: Photos
) -> None:
    window = visit(expected=REFUSED)
    page = window.open()
    fake.stop()
    window.add("name", [photos["mug"][0]])
    page.wait_for_selector("#banner >> text=The server does not answer.")
    assert page.locator(".card.waiting").count() == 1
    fake.start()
    page.click("text=Try now")
    page.wait_for_selector(".card.known >> text=mug")
    assert page.is_hidden("#banner")


def test_a_model_that_cannot_be_loaded_can_be_tried_again(visit: Callable[..., Any], fake: Any) -> None:
    fake.fake.fail["/v1/model"] = (503, "The model is being loaded.")
    window = visit(expected=REFUSED)
    page = window.open("know")
    page.wait_for_selector("#know-body >> text=The model is being loaded.")
    fake.fake.fail.clear()
    page.click("#know-body >> text=Try again")
    page.wait_for_selector(".class-card")


def test_photos_that_were_refused_can_be_named_later(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.fail["/v1/predict"] = (503, "too many images are waiting")
    window = visit(expected=REFUSED)
    page = window.open()
    window.add("name", [photos["mug"][0]])
    page.wait_for_selector("text=1 photo is not named yet.")
    window.said("too many images are waiting")
    fake.fake.fail.clear()
    page.click("text=Name now")
    page.wait_for_selector(".card.known")


def test_a_server_that_is_starting_is_asked_again(visit: Callable[..., Any], fake: Any) -> None:
    fake.fake.fail["/v1/model"] = (503, "the model is being loaded")
    window = visit(expected=REFUSED)
    page = window.open()
    assert page.locator("#model-line").text_content() == "not loaded"
    fake.fake.fail.clear()
    page.wait_for_selector("#model-line:text('version 3')")


def test_an_empty_model_says_what_to_do(visit: Callable[..., Any], fake: Any) -> None:
    fake.fake.classes, fake.fake.version, fake.fake.history = {}, 0, []
    window = visit()
    page = window.open()
    page.click("#tab-name .empty >> text=Teach classes")
    page.wait_for_selector("#tab-teach >> text=The first lesson")
    window.go("know")
    assert "The model knows no class yet" in (page.locator("#know-body").text_content() or "")


def test_keyboard_alone_names_and_corrects(visit: Callable[..., Any], photos: Photos) -> None:
    """Tab to the button that chooses photos, to a choice, and through the dialog: the mouse is not needed."""
    window = visit()
    window.page.on("filechooser", lambda chooser: chooser.set_files(str(photos["mug"][7])))
    page = window.open()

    def tab_to(selector: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("one => document.activeElement.matches(one)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline == "solid"
                return
        raise AssertionError(f"Tab does not reach {selector}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    tab_to("[data-key=choose]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card.known")
    tab_to("[data-key^=other-]")
    page.keyboard.press("Enter")
    page.keyboard.type("tea cup")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card.corrected >> text=You said tea cup")
    assert page.evaluate("document.activeElement.dataset.key").startswith("undo-")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card:not(.corrected)")
