"""The documents: plain words, equations that render, commands that repeat the rows of the tables."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest

from itaml.config import parse_overrides
from itaml.experiment.result import load_result
from itaml.experiment.run_config import completed, resolve
from itaml.learners import LEARNERS
from itaml.report.sentences import command

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*/*-seed*.json"))


def test_documents_use_the_words_of_the_field() -> None:
    private = re.compile(r"chances|slopes|knob|mirrors|dreams|perceptron|picture|processor", re.IGNORECASE)
    found = [f"{path.name}: {line}" for path in DOCUMENTS for line in _lines(path) if private.search(line)]
    assert found == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "methods").glob("*.md")), ids=lambda path: path.stem)
def test_the_equations_of_every_method_are_fenced(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    section = text.split("## What is computed", 1)[1].split("\n## ", 1)[0]
    fences = re.findall(r"```math\n(.+?)\n```", section, flags=re.DOTALL)
    assert fences
    for equation in fences:
        assert equation.count("{") == equation.count("}")
        for opening, closing in ((r"\\left\b", r"\\right\b"), (r"\\begin\b", r"\\end\b")):
            assert len(re.findall(opening, equation)) == len(re.findall(closing, equation))
    prose = re.sub(r"```.*?```|\$`.*?`\$|`.*?`", "", section, flags=re.DOTALL)
    assert not re.search(r"^ {4}|[_^*=]\S* *= |\bsum over\b", prose, flags=re.MULTILINE)


def test_every_method_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert pages | {"itaml"} == set(LEARNERS.names())


def test_the_command_of_every_result_repeats_its_settings() -> None:
    assert len(RESULTS) > 100
    for path in RESULTS:
        result = load_result(path)
        words = shlex.split(command(result))
        options = dict(itertools.pairwise(words))
        pairs = [word for flag, word in itertools.pairwise(words) if flag == "--set"]
        config = resolve(
            words[2],
            method=options["--method"],
            preset=options.get("--preset", "best"),
            recipe=options.get("--recipe"),
            seed=int(options["--seed"]),
            overrides=parse_overrides(pairs),
        )
        wanted = completed(json.loads(path.read_text(encoding="utf-8"))["config"])
        assert config.settings == wanted["settings"], path.name
        assert options.get("--precision", "auto") == wanted["compute"]["precision"]
        assert ("--compile" in words) == wanted["compute"]["compile"]


def test_every_row_of_the_tables_has_a_command() -> None:
    page = (ROOT / "REPRODUCIBILITY.md").read_text(encoding="utf-8")
    table = page.split("<!-- table: commands -->", 1)[1].split("<!-- end -->", 1)[0]
    for path in RESULTS:
        name = re.sub(r"-seed\d+$", "", path.stem)
        assert f"| {path.parent.name} | `{name}` |" in table


def test_the_glossary_names_code_that_exists() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    names = re.findall(r"`(itaml(?:\.\w+)+)`", text)
    assert len(names) > 10
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


def test_the_readme_says_how_to_call_and_install_without_make() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words in (
        ".venv/bin/itaml --help",
        ". .venv/bin/activate",
        "pip install -c constraints.txt .",
        "pip install .",
    ):
        assert words in text


def _lines(path: Path) -> list[str]:
    """Return the lines of a document without its fenced blocks."""
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines()
