"""Every method has a page with its paper, equations, differences, command, code, results and learning curve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from itaml.learners import LEARNERS

ROOT = Path(__file__).parents[2]
NO_PAPER = {"joint"}  # an upper bound: training on all data


def page(method: str) -> Path:
    return ROOT / "docs" / ("itaml.md" if method == "itaml" else f"methods/{method}.md")


@pytest.mark.parametrize("method", LEARNERS.names())
def test_the_page_is_complete(method: str) -> None:
    path = page(method)
    text = path.read_text(encoding="utf-8")
    assert "```math" in text
    assert re.search("differences from the paper", text, re.IGNORECASE)
    assert method in NO_PAPER or re.search(r"- paper: \[[^\]]+\]\(https://(arxiv|doi)\.org/", text)
    assert f"- command: `itaml run mnist-5 --method {method}`" in text
    assert re.search(r"\| `mnist-5` \| `best` \| \d \| \d", text), "results"
    assert (path.parent / re.findall(r"!\[Accuracy of[^\]]*\]\(([^)]+)\)", text)[0]).exists(), "learning curve"


@pytest.mark.parametrize("method", LEARNERS.names())
def test_links_to_lines_of_code_lead_to_what_they_name(method: str) -> None:
    path = page(method)
    links = re.findall(r"\[`(\w+)`\]\(([^)#]+\.py)#L(\d+)\)", path.read_text(encoding="utf-8"))
    assert links
    for name, target, line in links:
        source = (path.parent / target).resolve().read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert re.match(rf"\s*(?:def|class) {name}\b", source), source
