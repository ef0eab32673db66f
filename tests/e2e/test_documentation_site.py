"""The documentation site is built without a warning, loads nothing from elsewhere and needs no script for formulas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

from e2e.code_blocks import ROOT

pytestmark = pytest.mark.slow  # mkdocs builds the whole site

LOADED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(https?:[^\"'\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        assert (site / document.relative_to(ROOT / "docs").with_suffix(".html")).exists(), document


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert LOADED.findall(page.read_text(encoding="utf-8")) == [], page


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "itaml.html").read_text(encoding="utf-8")
    assert page.count("<math") >= 5
    assert "mathematics-" not in page
    assert "```math" not in page


def test_formulas_have_no_command_that_was_not_converted(site: Path) -> None:
    for page in site.rglob("*.html"):
        formulas = re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not [formula for formula in formulas if "\\" in formula], page


def test_reference_pages_show_commands_settings_and_docstrings(site: Path) -> None:
    commands = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "itaml learn" in commands
    assert "--backbone" in commands
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    assert "weight of the distillation from the model before the task" in settings
    api = (site / "reference" / "api" / "model.html").read_text(encoding="utf-8")
    assert "Every <code>learn</code> saves" in api
