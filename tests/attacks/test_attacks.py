"""Every attack with small counts; `make test-attacks` runs them at full size.

Those on data sets are in `test_pickles.py` and `test_files.py`.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path

import pytest

from attacks.__main__ import ATTACKS
from attacks.harness import Attack

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
    attack: Attack = importlib.import_module(f"attacks.{ATTACKS[name].module}").attack
    tally = attack(FEW[name], tmp_path, random.Random(0))
    assert tally.failures == []
    assert tally.trials >= FEW[name]
