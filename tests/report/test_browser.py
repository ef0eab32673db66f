"""The page in a real browser: no errors, no requests, charts and matrix there, in light, dark and on a phone.

Skipped where Chromium is not installed; `make test-browser` runs it and keeps the screenshots in `build/browser`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from itaml.config import Compute
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment
from itaml.report.figure_names import collect
from itaml.report.page import page

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing of the browser's own leaves the machine either
    "--enable-logging=stderr",
    "--v=0",
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so the page is not opened in a browser"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page about short runs on digits: three methods, two seeds of one."""
    folder = tmp_path_factory.mktemp("browser")
    for method, seed in (("itaml", 0), ("itaml", 1), ("replay", 0), ("finetune", 0)):
        compute = Compute(device="cpu", precision="fp32")
        config = resolve("digits", method=method, seed=seed, overrides={"epochs": 2}, compute=compute)
        run_experiment(config, folder / "runs" / f"{method}{seed}")
    path = folder / "report.html"
    path.write_text(page(collect([folder / "runs"])), encoding="utf-8")
    return path


def _chromium(report: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    profile = report.parent / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments, report.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def _screenshot(report: Path, name: str, *arguments: str) -> Image.Image:
    folder = Path(os.environ.get("ITAML_SCREENSHOTS") or report.parent)
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / f"{name}.png").absolute()
    _chromium(report, f"--screenshot={path}", *arguments)
    return Image.open(path).convert("RGB")


def test_the_browser_shows_curves_and_matrix_without_errors(report: Path) -> None:
    log = report.parent / "net.json"
    ran = _chromium(report, "--dump-dom", f"--log-net-log={log}")
    assert "CONSOLE" not in ran.stderr
    dom = ran.stdout
    assert len(re.findall(r"<svg [^>]*class=\"chart\"", dom)) == 4 * 3 + 2 + 3 * 6 + 3
    assert "Accuracy of each task, p = 20, %" in dom
    assert dom.count('<th scope="col"') == dom.count('<button type="button">')  # the script has made them
    assert dom.count("data:image/png;base64,") == 2 * 10  # the exemplars of ten classes
    assert "itaml (best" not in dom
    assert _asked_by_the_page(log) == set()


def _asked_by_the_page(log: Path) -> set[str]:
    """Return the addresses that the page asked for; what the browser asks for on its own account has no origin."""
    events = json.loads(_closed(log.read_text(encoding="utf-8")))["events"]
    asked = [event["params"] for event in events if "url" in (event.get("params") or {})]
    return {request["url"] for request in asked if request.get("initiator") not in (None, "not an origin")}


def _closed(text: str) -> str:
    """Return a log as whole JSON, also one that the browser had no time to finish."""
    try:
        json.loads(text)
    except ValueError:
        return text.rstrip().rstrip(",") + "]}"
    return text


def test_a_page_that_asks_for_something_would_be_found_out(report: Path) -> None:
    bad = report.with_name("bad.html")
    bad.write_text('<img src="http://127.0.0.1:9/a.png"><script>console.error("here")</script>', encoding="utf-8")
    log = report.parent / "bad.json"
    ran = _chromium(bad, "--dump-dom", f"--log-net-log={log}")
    assert "CONSOLE" in ran.stderr
    assert _asked_by_the_page(log) == {"http://127.0.0.1:9/a.png"}


def test_light_and_dark_differ_and_both_are_drawn(report: Path) -> None:
    light = _screenshot(report, "light", "--window-size=1280,3000", "--blink-settings=preferredColorScheme=1")
    dark = _screenshot(report, "dark", "--window-size=1280,3000", "--blink-settings=preferredColorScheme=0")
    assert light.getpixel((2, 2)) == (255, 255, 255)
    assert dark.getpixel((2, 2)) == (0x14, 0x18, 0x1D)
    assert len(set(light.resize((128, 300)).get_flattened_data())) > 100


def _drive(report: Path, name: str, script: str) -> str:
    """Run a script on the page in a frame, `d` being its document; return the text that the script computes."""
    outer = report.with_name(f"{name}.html")
    outer.write_text(
        '<iframe src="report.html" width="1200" height="900"></iframe>'
        f"<script>onload=()=>{{const d=frames[0].document;document.title=(()=>{{{script}}})()}}</script>",
        encoding="utf-8",
    )
    dom = _chromium(outer, "--dump-dom", "--allow-file-access-from-files", "--virtual-time-budget=3000").stdout
    found = re.search(r"<title>(.*?)</title>", dom)
    assert found is not None
    return found[1]


def test_a_click_on_a_column_sorts_the_rows_and_a_second_one_turns_them(report: Path) -> None:
    names = "[...d.querySelectorAll('tbody tr[data-series] th')].map(th=>th.textContent).join()"
    click = "d.querySelector('thead button').click();"
    said = _drive(report, "sort", f"{click}const up={names};{click}return up+' '+{names}")
    assert said == "itaml,replay,finetune replay,itaml,finetune"  # finetune is not ranked: it stays below


def test_a_tap_on_a_method_highlights_it_in_table_and_charts(report: Path) -> None:
    tap = "d.querySelector('.legend button').click();"
    marked = "[...d.querySelectorAll('.compare .on')].map(e=>e.dataset.series)"
    faint = "getComputedStyle(d.querySelector('.charts.r1 [data-series=\"1\"]')).opacity"
    said = _drive(report, "tap", f"{tap}const m={marked};return [new Set(m).size,m.length>9,m[0]]")
    assert said == "1,true,0"
    still = "d.querySelectorAll('.compare *').forEach(e=>{e.style.transition='none'});"
    assert float(_drive(report, "faint", f"{still}{tap}return {faint}")) == 0.12
    assert _drive(report, "again", f"{tap}{tap}return {marked}.length") == "0"


def test_nothing_but_tables_is_wider_than_a_phone(report: Path) -> None:
    """Measure in the page itself: a frame of 390 pixels around it, and how far the document reaches."""
    outer = report.with_name("phone.html")
    script = (
        "onload=()=>{const d=frames[0].document.documentElement;document.title=`${d.scrollWidth} ${d.clientWidth}`}"
    )
    outer.write_text(
        f'<iframe src="report.html" width="390" height="3000" style="border:0"></iframe><script>{script}</script>',
        encoding="utf-8",
    )
    dom = _chromium(outer, "--dump-dom", "--allow-file-access-from-files", "--virtual-time-budget=3000").stdout
    found = re.search(r"<title>(\d+) (\d+)</title>", dom)
    assert found is not None
    assert found[1] == found[2] == "390"
    _screenshot(outer, "phone", "--window-size=500,3000", "--allow-file-access-from-files")
