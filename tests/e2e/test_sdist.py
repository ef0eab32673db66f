"""The source distribution holds everything that its tests need."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READERS = [  # tests that read documents, benchmarks, examples and result files, or build the package
    "tests/e2e/test_documents.py",
    "tests/data/test_dataset_wrappers.py",
    "tests/data/test_image_files.py",
    "tests/experiment/test_event_log.py",
    "tests/cli/test_ablate_command.py",
]


def build_sdist(folder: Path) -> Path:
    """Build the source distribution, unpack it and return its folder."""
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (archive,) = folder.glob("itaml-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on an unpacked source distribution, with the package that is in it."""
    env = {**os.environ, "PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_tests_of_a_source_distribution_are_collected_and_find_their_files(tmp_path: Path) -> None:
    unpacked = build_sdist(tmp_path)
    collected = pytest_in(unpacked, "--collect-only", "-m", "")
    assert collected.returncode == 0, collected.stdout + collected.stderr
    done = pytest_in(unpacked, *READERS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_source_distribution_holds_what_make_needs(tmp_path: Path) -> None:
    unpacked = build_sdist(tmp_path)
    for name in ("Makefile", "constraints.txt", ".ci/run", "CONTRIBUTING.md", "benchmarks/documents.py"):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository")
def test_a_source_distribution_holds_every_file_of_the_repository(tmp_path: Path) -> None:
    unpacked = build_sdist(tmp_path)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in listed.splitlines() if (ROOT / name).exists()]
    missing = [name for name in names if not (unpacked / name).exists()]
    assert missing == []
