"""The Name tab in a browser: names, unknown, unreadable, modes, corrections, CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser_support import needs_chromium, until

pytestmark = [pytest.mark.slow, needs_chromium]
Photos = dict[str, list[Path]]


def _named(page: Any) -> list[str]:
    until(page, "document.querySelector('.card') && !document.querySelector('.card.waiting, .summary .spinner')")
    names: list[str] = page.eval_on_selector_all(
        ".card .verdict", "all => all.map(one => one.querySelector('.class-name')?.textContent ?? one.textContent)"
    )
    return names


def test_photos_are_named_with_probability_and_alternatives(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", [photos["mug"][0], photos["leaf"][0], photos["odd"][0], photos["broken"][0]])
    assert _named(page) == ["mug", "leaf", "unknown", "Not readable"]
    mug = page.locator(".card").nth(0)
    assert mug.locator(".verdict .share").text_content() == "93%"
    assert mug.locator(".choice-name").all_text_contents() == ["apple", "boat"]
    bar = mug.locator(".bar").first.evaluate("one => getComputedStyle(one, '::before').width + ' ' + one.clientWidth")
    filled, whole = (float(part.removesuffix("px")) for part in bar.split())
    assert filled / whole == pytest.approx(0.93, abs=0.01)
    odd = page.locator(".card.unknown")
    assert odd.locator(".unknown-tag svg").count() == 1  # a sign and a word, not a colour alone
    assert odd.locator(".choice-name").count() == 3
    assert "not an image" in (page.locator(".card.unreadable").text_content() or "")
    assert page.locator(".summary-row p").text_content() == "4 photos · 2 named · 1 unknown · 1 not readable"


def test_a_group_changes_names_and_says_which(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", photos["mug"][5:9])
    assert _named(page) == ["mug", "mug", "apple", "mug"]
    page.check("#mode-continuum", force=True)
    page.wait_for_selector(".card.changed")
    assert _named(page) == ["mug"] * 4
    assert page.locator(".card.changed .note").all_text_contents() == ["Changed: was apple"]
    assert "1 name has changed." in (page.locator("#mode-help").text_content() or "")
    page.check("#mode-alone", force=True)
    page.wait_for_selector(".card.changed", state="detached")
    assert _named(page) == ["mug", "mug", "apple", "mug"]


def test_a_sequence_is_shown_in_its_groups(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", photos["mug"][:4] + photos["leaf"][:3])
    page.check("#mode-stream", force=True)
    page.wait_for_selector(".group")
    titles = page.locator(".group-title").all_text_contents()
    assert titles == ["Group 1 4 photos · task 1", "Group 2 3 photos · task 2"]
    assert [group.locator(".card").count() for group in page.locator(".group").all()] == [4, 3]


def test_one_click_corrects_a_name_and_undo_takes_it_back(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", [photos["mug"][7]])
    assert _named(page) == ["apple"]
    page.click(".choice >> text=boat")
    page.wait_for_selector(".card.corrected >> text=You said boat")
    assert page.locator("[data-tab=teach] .badge").text_content() == "1 photos collected"
    assert page.evaluate("document.activeElement.dataset.key").startswith("undo-")  # the keyboard stays in the card
    page.click(".card >> text=Undo")
    page.wait_for_selector(".card:not(.corrected)")
    assert page.locator("[data-tab=teach] .badge").count() == 0


def test_a_new_class_can_be_typed_and_a_bad_name_is_refused(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", [photos["fish"][0]])
    page.click("text=Another class…")
    page.fill("#right-class", "MUG")
    page.click("dialog >> text=Collect it")
    assert page.locator("#right-help").text_content() == "There is a class “mug” already; write it the same way."
    page.fill("#right-class", "Unknown")
    page.keyboard.press("Enter")
    assert "choose another name" in (page.locator("#right-help").text_content() or "")
    page.fill("#right-class", "fish")
    assert page.locator("#right-help").text_content() == "“fish” will be a new class."
    page.keyboard.press("Enter")
    page.wait_for_selector(".card.corrected >> text=You said fish")
    window.go("teach")
    assert page.locator(".class-panel").get_attribute("aria-label") == "fish"


def test_everything_is_there_after_a_reload(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    window.add("name", [photos["mug"][7], photos["leaf"][1]])
    _named(page)
    page.click(".choice >> text=boat >> nth=0")
    page.check("#mode-continuum", force=True)
    until(page, "document.getElementById('mode-help').textContent.includes('changed')")
    page.reload()
    assert _named(page) == ["mug", "leaf"]
    assert page.locator(".card.corrected").count() == 1
    assert page.is_checked("#mode-continuum")
    assert page.evaluate("document.querySelector('.card img').decode().then(() => true)")
    window.go("teach")
    page.wait_for_selector(".class-panel[aria-label=boat]")


def test_csv_has_every_photo_and_no_formula(visit: Callable[..., Any], photos: Photos, tmp_path: Path) -> None:
    window = visit()
    page = window.open()
    bytes_of = photos["mug"][0].read_bytes()
    names = ["=HYPERLINK(1).jpg", "+1.jpg", "-a.jpg", "@b.jpg", 'mug-0, "x".jpg']
    window.add("name", [{"name": name, "mimeType": "image/jpeg", "buffer": bytes_of} for name in names])
    _named(page)
    with page.expect_download() as download:
        page.click("text=Download CSV")
    download.value.save_as(tmp_path / "predictions.csv")
    with (tmp_path / "predictions.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == ["'=HYPERLINK(1).jpg", "'+1.jpg", "'-a.jpg", "'@b.jpg", 'mug-0, "x".jpg']
    assert rows[4]["class"] == "mug"
    assert float(rows[4]["probability"]) == pytest.approx(0.77)
    assert (rows[4]["known"], rows[4]["task"], rows[4]["class2"]) == ("yes", "1", "apple")


def test_names_of_files_and_classes_are_never_parsed(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    evil = "<img src=x onerror=document.title='hit'>"
    fake.fake.classes = {evil: 1, "mug": 1}
    fake.fake.images = {evil: 3, "mug": 3}
    window = visit()
    page = window.open()
    name = f"{evil.replace('/', '')}.jpg"
    window.add("name", [{"name": name, "mimeType": "image/jpeg", "buffer": photos["mug"][0].read_bytes()}])
    _named(page)
    page.click("text=Another class…")
    page.keyboard.press("Escape")
    page.click(".choice")
    for tab in ("teach", "know", "name"):
        window.go(tab)
        page.wait_for_timeout(200)
    assert page.locator("[onerror]").count() == 0
    assert page.title() == "Name · workshop"
    assert evil in (page.locator(".card").text_content() or "")


def test_photos_can_be_pasted_and_dropped(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open()
    data = list(photos["leaf"][0].read_bytes())
    page.evaluate(
        """([data]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(data)], "leaf-00.jpg", {type: "image/jpeg"}));
          dispatchEvent(new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true, cancelable: true}));
        }""",
        [data],
    )
    assert _named(page) == ["leaf"]
    page.evaluate(
        """([data]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(data)], "boat-00.jpg", {type: "image/jpeg"}));
          transfer.items.add(new File(["text"], "notes.txt", {type: "text/plain"}));
          document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
        }""",
        [data],
    )
    until(page, "document.querySelectorAll('.card').length === 2")
    assert _named(page) == ["leaf", "boat"]
    window.said("1 file is not a photo and was left out.")


def test_requests_stay_within_the_limits_of_the_server(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.limits = {"body_bytes": 40_000, "images": 3, "pixels": 10_000_000}
    window = visit()
    page = window.open()
    large = {"name": "large.jpg", "mimeType": "image/jpeg", "buffer": b"0" * 50_000}
    window.add("name", [{"name": f"mug-0{number}.jpg", "mimeType": "image/jpeg", "buffer": b"1" * 9_000}
                        for number in range(7)] + [large])  # fmt: skip
    assert _named(page) == ["mug"] * 7 + ["Not readable"]
    assert fake.fake.requests.count(("POST", "/v1/predict")) == 3
    said = page.locator(".card.unreadable .help").text_content()
    assert said == "This file has 50 KB; the server takes at most 40 KB at once."
    page.check("#mode-continuum", force=True)
    page.wait_for_selector("text=They were too many for one request, so they were named in 3 parts.")
