"""Two processes compute what one computes: steps, whole learners of every method, and evaluations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from filelock import FileLock
from torch import Tensor

from itaml.storage import State, load_state
from process_groups import HERE, run_group
from support import same_bits
from two_process_cases import EXACT, KIND, METHODS, NETWORKS

Pair = tuple[State, State]


def run_pair(factory: pytest.TempPathFactory, name: str, cases: Iterable[str]) -> Pair:
    """Return what both processes of one group returned for some cases; test workers share one group."""
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / name
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            folder.mkdir()
            ended = run_group([str(HERE / "two_process_cases.py"), str(folder)], CASES=json.dumps(list(cases)))
            assert [process.returncode for process in ended] == [0, 0], "\n".join(p.stderr for p in ended)
        first, second = (load_state(folder / f"rank{rank}", kind=KIND) for rank in (0, 1))
    return first, second


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return run_pair(tmp_path_factory, "pair", EXACT | METHODS)


@pytest.fixture(scope="session")
def pair_of_networks(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return run_pair(tmp_path_factory, "networks", NETWORKS)


def difference(left: Any, right: Any) -> float:
    """Return the largest difference between numbers of two nested states of one structure."""
    if isinstance(left, Tensor):
        assert left.shape == right.shape
        both = (left.double() - right.double()).abs()
        return float(both[left != right].max()) if bool((left != right).any()) else 0.0
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        return max((difference(left[key], right[key]) for key in left), default=0.0)
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        return max((difference(a, b) for a, b in zip(left, right, strict=True)), default=0.0)
    if isinstance(left, float):
        return abs(left - float(right))
    assert left == right
    return 0.0


@pytest.mark.parametrize("name", EXACT)
def test_a_step_of_two_processes_is_that_of_one(pair: Pair, name: str) -> None:
    assert same_bits(pair[0][name], pair[1][name])
    assert difference(EXACT[name](), pair[0][name]) < 1e-10


@pytest.mark.parametrize("name", METHODS)
def test_two_processes_learn_what_one_learns(pair: Pair, name: str) -> None:
    assert same_bits(pair[0][name], pair[1][name])
    alone, together = METHODS[name](), pair[0][name]
    assert difference(alone["state"], together["state"]) < 1e-5
    assert difference(alone["scores"], together["scores"]) < 1e-5
    assert alone["evaluation"] == together["evaluation"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_two_processes_train_a_resnet_as_one_does(pair_of_networks: Pair, name: str) -> None:
    first, second = (rank[name] for rank in pair_of_networks)
    assert same_bits(first, second)
    alone = NETWORKS[name]()
    single_precision = name == "rtf resnet"  # of its generator, whose images it learns
    assert difference(alone["state"], first["state"]) < (1e-4 if single_precision else 1e-8)
    assert alone["evaluation"] == first["evaluation"]
