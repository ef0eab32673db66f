"""Hostile data files, a few of each kind, and mutated ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from attacks import archives
from attacks.archive_makers import IDX, MAT, TAR, TAR_PYTHON, hostile_files


def test_hostile_data_files_are_refused(tmp_path: Path) -> None:
    tally = archives.attack(40, tmp_path, random.Random(0))
    assert tally.failures == []
    assert tally.outcomes == {"refused": 40}


@pytest.mark.slow
def test_all_hostile_data_files_and_changed_ones(tmp_path: Path) -> None:
    tally = archives.attack(len(list(hostile_files())) + 100, tmp_path, random.Random(1))
    assert tally.failures == []


@pytest.mark.parametrize("path", [IDX, MAT, TAR, TAR_PYTHON])
def test_the_good_files_they_stand_beside_are_read(tmp_path: Path, path: str) -> None:
    archives.write_good(tmp_path)
    for name, data in archives.good_files(path).items():
        (tmp_path / name).write_bytes(data)
    assert archives.load(path, tmp_path) == "read"
