"""All malicious pickles, and a good one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from attacks import pickles
from attacks.pickle_makers import malicious
from itaml.data.pickles import read_pickle


def test_malicious_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("itaml.data.pickles.MAX_STEPS", 100_000)  # so that a million instructions end sooner
    names = [name for name, _ in malicious()]
    count = len(names)
    tally = pickles.attack(count, tmp_path, random.Random(0))
    assert tally.failures == []
    assert tally.trials == count >= 100
    assert tally.outcomes["refused"] == count - sum(name.startswith("harmless") for name in names)


def test_the_good_pickle_they_are_made_from_is_read() -> None:
    assert read_pickle(pickles.good(), source="a file")["data"].tolist() == [97, 98, 99, 100]
