"""Every script and notebook in examples/ runs, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TRAINING = {  # what each script must print; a group is an accuracy in per cent and its least value
    "learn_photos.py": (r"version 2: learned stripes, triangle\n(?s:.*)classes after rollback: .*stripes", None),
    "compare_methods.py": (r"replay +class accuracy +([\d.]+) % at p = 1", 80.0),
    "own_method.py": (r"accuracy on the last task: ([\d.]+) %", 80.0),
    "own_dataset.py": (r"accuracy on the first task after the second: (\d+) %", 90.0),
    "scikit_learn.py": (r"10 classes, accuracy on all ten digits ([\d.]+) %", 85.0),
    "ordered_stream.py": (r"group=stream: ([\d.]+) % right", 85.0),
}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_script_trains(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pattern, least = TRAINING[name]
    found = re.search(pattern, done.stdout)
    assert found, done.stdout
    if least is not None:
        assert float(found[1]) >= least


def test_every_script_that_trains_is_tested() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py") if ".learn(" in path.read_text(encoding="utf-8")}
    assert found <= {*TRAINING}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_notebook_runs_and_shows_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    notebook: Any = nbformat.read(EXAMPLES / name, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute()
    shown = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    tables = [output for output in shown if "<table>" in output.data.get("text/html", "")]
    assert len(tables) >= 2


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.ipynb")))
def test_notebook_is_stored_without_outputs(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert '"execution_count": null' in text
    assert '"output_type"' not in text
