"""Every attack with small counts; `make test-attacks` runs them at full size.

Those on data sets are in `test_pickles.py` and `test_files.py`.
"""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import pytest

from attacks.__main__ import ATTACKS, OUTPUT, TABLE
from attacks.harness import Attack
from itaml.modelstore import shared_tables

LEAST = {  # trials of the committed figures
    "kill_learn": 500,
    "kill_run": 200,
    "flip_model": 2000,
    "flip_run": 500,
    "images": 10_000,
    "command_lines": 3000,
    "pickles": 100,
    "archives": 100,
    "model_folders": 500,
    "disk_faults": 1000,
    "long_life": 300,
    "processes": 1000,
}
FEW = {
    "kill_learn": 4,
    "kill_run": 3,
    "flip_model": 20,
    "flip_run": 12,
    "images": 360,
    "command_lines": 12,
    "model_folders": 5,
    "disk_faults": 12,
    "long_life": 4,
    "processes": 2,
}


@pytest.mark.parametrize("name", FEW)
def test_an_attack_does_no_harm(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shared_tables, "SMALLEST", TABLE)
    attack: Attack = importlib.import_module(f"attacks.{ATTACKS[name].module}").attack
    tally = attack(FEW[name], tmp_path, random.Random(0))
    assert tally.failures == []
    assert tally.trials >= FEW[name]


@pytest.mark.parametrize("name", LEAST)
def test_the_committed_figures_are_complete_and_without_failures(name: str) -> None:
    row = json.loads(OUTPUT.read_text(encoding="utf-8"))["attacks"][name]
    assert row["failures"] == 0, row["failed"]
    assert row["trials"] >= LEAST[name]
    assert row["title"] == ATTACKS[name].title


def test_every_attack_has_figures() -> None:
    assert set(LEAST) == set(ATTACKS) == set(json.loads(OUTPUT.read_text(encoding="utf-8"))["attacks"])
