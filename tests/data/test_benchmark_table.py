"""The table of benchmarks: the paper's numbers, and sources that exist."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from itaml.data.benchmarks import BENCHMARKS, benchmark
from itaml.errors import UnknownNameError
from itaml.models import MODELS

PAPER = {  # memory and p: section 4 of the paper
    "mnist-5": (5, 2000, 20),
    "svhn-5": (5, 2000, 20),
    "cifar100-2": (2, 2000, 20),
    "cifar100-5": (5, 2000, 20),
    "cifar100-10": (10, 2000, 20),
    "cifar100-20": (20, 2000, 20),
    "imagenet100-10": (10, 2000, 50),
    "imagenet1k-10": (10, 20_000, 100),
    "celeb10k-10": (10, 50_000, 20),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_numbers(name: str) -> None:
    found = benchmark(name)
    assert (found.tasks, found.memory, found.p) == PAPER[name]


def test_every_source_and_model_exists() -> None:
    for found in (*BENCHMARKS.values(), benchmark("folder:somewhere")):
        module, _, attribute = found.source.partition(":")
        assert callable(getattr(import_module(module), attribute))
        assert found.model in MODELS.names()


def test_a_folder_carries_its_path() -> None:
    assert benchmark("folder:~/birds").path == Path.home() / "birds"


def test_an_unknown_benchmark_is_met_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'mnist-5'"):
        benchmark("mnist5")


def test_names_status_and_command_import_no_torch() -> None:
    code = "import sys, itaml.data.benchmarks, itaml.data.fetch, itaml.cli.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
