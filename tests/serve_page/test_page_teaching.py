"""The Teach tab in a browser: folders, checks, progress, cancel, results, parts of large uploads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser_support import needs_chromium, until

pytestmark = [pytest.mark.slow, needs_chromium]
Photos = dict[str, list[Path]]

DROP_FOLDERS = """(folders) => {
  const made = (name) => new File([name], name, {type: name.endsWith(".jpg") ? "image/jpeg" : "text/plain"});
  const file = (name) => ({isFile: true, isDirectory: false, name, file: (take) => take(made(name))});
  const folder = (name, children) => ({isFile: false, isDirectory: true, name, createReader: () => {
    let rest = children;
    return {readEntries: (take) => { const some = rest.slice(0, 2); rest = rest.slice(2); take(some); }};
  }});
  const entry = (given) => typeof given === "string" ? file(given) : folder(given[0], given[1].map(entry));
  const items = folders.map((given) => ({kind: "file", webkitGetAsEntry: () => entry(given)}));
  const event = new Event("drop", {bubbles: true, cancelable: true});
  Object.defineProperty(event, "dataTransfer", {value: {types: ["Files"], items}});
  document.body.dispatchEvent(event);
}"""


def _classes(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.eval_on_selector_all(
        ".class-panel",
        "all => Object.fromEntries(all.map(one => [one.querySelector('input').value, "
        "one.querySelector('.class-count').textContent]))",
    )
    return found


def _marks(page: Any) -> list[str]:
    page.wait_for_selector(".start .spinner", state="detached")
    marks: list[str] = page.locator(".mark").all_text_contents()
    return marks


def test_several_folders_at_once_become_classes(visit: Callable[..., Any]) -> None:
    window = visit()
    page = window.open("teach")
    owls = [f"owl-{number}.jpg" for number in range(5)]
    page.evaluate(DROP_FOLDERS, [["owl", [*owls, ".DS_Store", "notes.txt"]], ["pets", [["cat", ["a.jpg"]], "b.jpg"]]])
    page.wait_for_selector(".class-panel[aria-label=pets]")
    assert _classes(page) == {"owl": "5 photos", "cat": "1 photo", "pets": "1 photo"}


def test_a_chosen_folder_gives_its_name(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open("teach")
    page.set_input_files("#tab-teach input[webkitdirectory]", str(photos["leaf"][0].parent))
    page.wait_for_selector(".class-panel")
    assert _classes(page) == {"leaf": "10 photos"}
    assert "The model knows this class" in (page.locator(".class-panel").text_content() or "")


def test_copies_known_and_unreadable_files_are_marked(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open("teach")
    page.fill("#class-field", "fish")
    known = {"name": "known-1.jpg", "mimeType": "image/jpeg", "buffer": photos["mug"][1].read_bytes()}
    fish, twin = photos["fish"][0], photos["fish"][0].read_bytes()
    given = [
        {"name": file.name, "mimeType": "image/jpeg", "buffer": file.read_bytes()}
        for file in (fish, photos["broken"][0])
    ]
    window.add("teach", [*given, {"name": "again.jpg", "mimeType": "image/jpeg", "buffer": twin}, known])
    page.wait_for_selector(".mark.known")
    assert _marks(page) == ["Unreadable", "Copy", "Known"]
    page.click("text=What was found (3)")
    assert page.locator(".troubles li").all_text_contents() == [
        "broken-01.jpg: unreadable. The file is cut off.",
        "again.jpg: copy. The same photo as fish-00.jpg.",
        "known-1.jpg: known. The model has it as mug.",
    ]
    assert page.locator(".start-title").text_content() == "2 photos of 1 class"
    page.click("text=Remove 2 unneeded files")
    until(page, "document.querySelectorAll('.tile').length === 2")
    window.said("2 photos removed.")
    page.click(".toast >> text=Undo")
    until(page, "document.querySelectorAll('.tile').length === 4")


def test_photos_without_a_class_must_get_one(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    window = visit()
    page = window.open("teach")
    window.add("teach", photos["fish"][:3])
    page.wait_for_selector("text=Give every group of photos a class.")
    assert page.is_disabled("[data-key=teach]")
    page.fill(".class-panel input[type=text]", "fish")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-key=teach]:not([disabled])")
    page.click("[data-key=teach]")
    page.wait_for_selector(".ended.done")
    assert fake.fake.uploads == [[(f"fish-0{number}.jpg", "fish") for number in range(3)]]


def test_the_result_compares_before_and_after(visit: Callable[..., Any], photos: Photos) -> None:
    window = visit()
    page = window.open("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"][:4])
    page.click("[data-key=teach]")
    page.wait_for_selector(".ended.done")
    window.said("The model has learned fish.")
    rows = [row.split("\t") for row in page.locator(".ended tbody").inner_text().splitlines()]
    assert rows[0] == ["All classes", "96.0%", "95.8%", "▼ −0.2"]
    assert rows[-1] == ["fish", "–", "98.0%", "new"]
    assert "Forgotten: mug (−1.0 points)" in (page.locator(".ended .note").text_content() or "")
    assert page.locator(".class-panel").count() == 0  # what was taught is not collected any more
    assert page.locator("#model-line").text_content() == "version 4 · 6 classes"
    page.reload()
    page.wait_for_selector(".ended.done")
    page.click("[aria-label='Close this result']")
    page.wait_for_selector(".ended", state="detached")
    page.reload()
    page.wait_for_selector("#model-line >> text=version 4")
    assert page.locator(".ended").count() == 0


def test_progress_survives_a_reload_and_can_be_cancelled(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.hold = "features"
    window = visit()
    page = window.open("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"][:4])
    page.click("[data-key=teach]")
    page.wait_for_selector(".phases .now:text('Features')")
    assert "seconds left" in (page.locator(".job-line").text_content() or "")
    page.reload()
    page.wait_for_selector(".phases .now:text('Features')")
    fake.fake.hold = "training"
    page.wait_for_selector(".phases .now:text('Training')")
    assert page.locator(".job progress").evaluate("one => one.value") > 0.3
    page.click(".job >> text=Cancel")
    page.wait_for_selector(".ended.cancelled")
    assert _classes(page) == {"fish": "4 photos"}  # still collected
    assert page.locator("#model-line").text_content() == "version 3 · 5 classes"


def test_a_failed_learn_says_why_and_keeps_the_photos(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.learn_fails = "The disk is full; free 200 MB and try again."
    window = visit()
    page = window.open("teach")
    page.fill("#class-field", "fish")
    window.add("teach", photos["fish"][:4])
    page.click("[data-key=teach]")
    page.wait_for_selector(".ended.failed >> text=The disk is full; free 200 MB and try again.")
    assert _classes(page) == {"fish": "4 photos"}


def test_a_large_collection_is_taught_in_parts(visit: Callable[..., Any], fake: Any, photos: Photos) -> None:
    fake.fake.limits = {"body_bytes": 10_000_000, "images": 5, "pixels": 10_000_000}
    window = visit()
    page = window.open("teach")
    for kind, number in (("fish", 2), ("boat", 3), ("leaf", 7)):
        page.fill("#class-field", kind)
        window.add("teach", photos[kind][:number])
        page.wait_for_selector(f".class-panel[aria-label={kind}]")
    page.click("[data-key=teach]")
    until(page, "document.getElementById('model-line').textContent.startsWith('version 6')")
    page.wait_for_selector(".ended.done")
    assert [sorted({label for _, label in part}) for part in fake.fake.uploads] == [
        ["boat", "fish"],
        ["leaf"],
        ["leaf"],
    ]
    assert [len(part) for part in fake.fake.uploads] == [5, 5, 2]
    page.wait_for_selector(".class-panel", state="detached")
