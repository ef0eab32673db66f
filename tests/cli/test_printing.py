"""What the command line prints is text for a terminal, whatever files are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from itaml.cli.main import main


def test_names_that_are_not_text_are_printed_as_they_came_in(tmp_path: Path) -> None:
    name = b"\xff\xfe"
    call: list[str | bytes] = [sys.executable, "-m", "itaml", "data", "list", "--data-root", name]
    ran = subprocess.run(call, capture_output=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"data root: " + name in ran.stdout


def test_an_error_is_one_printable_line_of_bounded_length(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("\x1b[31mred", "a\nb", "x" * 10_000):
        with pytest.raises(SystemExit) as ended:
            main(["info", name])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert "\x1b" not in said
        assert len(said) < 1100
