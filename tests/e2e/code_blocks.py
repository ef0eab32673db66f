"""Code blocks of the documents: find them, and run them in a folder as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import typer

from itaml.cli.main import app

ROOT = Path(__file__).parents[2]
LONGEST = 1800  # seconds of a document
ELSEWHERE = {ROOT / "docs" / "serve.md"}  # whose blocks need a service; tests/serve runs them
PARSED = r"^(?:<!-- parsed: (?P<reason>[^>]+) -->\n)?"
BLOCK = re.compile(PARSED + r"```(?P<language>sh|bash|python)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A code block; one with a reason is not run, its commands are parsed alone."""

    language: str
    text: str
    reason: str | None


def documents() -> list[Path]:
    """Return all documents that have code blocks."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if blocks(path) and path not in ELSEWHERE]


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a document in order."""
    text = path.read_text(encoding="utf-8")
    return [Block(found["language"], found["text"], found["reason"]) for found in BLOCK.finditer(text)]


def commands(text: str) -> Iterator[list[str]]:
    """Return the calls of `itaml` in a shell script, as lists of arguments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["itaml"]:
            yield list(takewhile(lambda word: word not in (">", "|", "&"), words[1:]))


def check_command(arguments: list[str]) -> None:
    """Parse the arguments of a call; raises what the command line would report."""
    command, rest = typer.main.get_command(app), arguments
    while hasattr(command, "commands") and not rest[0].startswith("-"):
        command, rest = command.commands[rest[0]], rest[1:]
    root_options = (
        {option for param in command.params for option in param.opts} if hasattr(command, "commands") else set()
    )
    if not root_options.intersection(rest):  # such as --help, which would be obeyed
        command.make_context("itaml", list(rest))


def run_document(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a document, in order, in one folder and one process; return what it printed."""
    for name in ("examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    script = folder / "blocks.py"
    script.write_text("\n".join(["import subprocess", *map(_statement, blocks(path))]), encoding="utf-8")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, words in {"itaml": "-m itaml ", "python": ""}.items():
        (bin_folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n', encoding="utf-8")
        (bin_folder / name).chmod(0o755)
    path_variable = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    source = os.pathsep.join([str(ROOT / "src"), str(folder)])
    environment = {**os.environ, "PATH": path_variable, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
    )


def _statement(block: Block) -> str:
    if block.reason:
        return ""
    if block.language == "python":
        return block.text
    return f"subprocess.run(['bash', '-euc', {block.text!r}], check=True)"
