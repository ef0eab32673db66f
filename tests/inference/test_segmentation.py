"""Cutting mixed streams: the dynamic programme against every path there is, online against offline, and the cost."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from itaml import seeding
from itaml.errors import DataError, SettingsError
from itaml.inference.segmentation import OnlineSegmenter, estimate_mean_run, runs, segment, switch_cost, temper_evidence


def evidence_of(seed: int, n: int, tasks: int) -> Tensor:
    return torch.randn(n, tasks, generator=seeding.generator(seed, "evidence")).double().log_softmax(1)


def value(evidence: Tensor, path: tuple[int, ...], cost: float) -> float:
    gain = sum(float(evidence[at, task]) for at, task in enumerate(path))
    return gain - cost * sum(left != right for left, right in itertools.pairwise(path))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cost", [0.0, 0.4, 1.5, 50.0])
def test_the_path_is_the_best_of_all_paths(seed: int, cost: float) -> None:
    evidence = evidence_of(seed, 7, 3)
    best = max(itertools.product(range(3), repeat=7), key=lambda path: value(evidence, path, cost))
    found = tuple(segment(evidence, cost).tolist())
    assert value(evidence, found, cost) == pytest.approx(value(evidence, best, cost), abs=1e-12)
    assert found == best


def test_without_a_cost_every_sample_stands_alone_and_with_a_huge_one_all_stand_together() -> None:
    evidence = evidence_of(1, 40, 4)
    assert torch.equal(segment(evidence, 0.0), evidence.argmax(1))
    assert segment(evidence, 1e6).tolist() == [int(evidence.sum(0).argmax())] * 40


@pytest.mark.parametrize("lag", [30, 31, 1000])
def test_online_with_a_lag_as_long_as_the_stream_is_offline(lag: int) -> None:
    evidence = evidence_of(2, 30, 3)
    online = OnlineSegmenter(3, switch_cost=1.0, lag=lag)
    assert [online.push(row) for row in evidence] == [None] * 30
    assert online.flush() == segment(evidence, 1.0).tolist()


@pytest.mark.parametrize("lag", [0, 1, 5])
def test_online_tells_each_sample_once_after_the_lag(lag: int) -> None:
    evidence = evidence_of(3, 30, 3)
    online = OnlineSegmenter(3, switch_cost=1.0, lag=lag)
    told = [online.push(row) for row in evidence]
    assert told[:lag] == [None] * lag
    assert None not in told[lag:]
    assert len([task for task in told if task is not None] + online.flush()) == 30
    assert online.flush() == []


def test_a_long_lag_decides_like_offline_where_the_evidence_is_clear() -> None:
    truth = torch.tensor([0] * 20 + [2] * 15 + [1] * 25)
    evidence = torch.full((60, 3), math.log(0.1)).double()
    evidence[torch.arange(60), truth] = math.log(0.8)
    evidence[[5, 30, 50]] = evidence[[25, 50, 5]]  # three samples point the wrong way
    online = OnlineSegmenter(3, switch_cost=switch_cost(20, 3), lag=8)
    told = [task for task in map(online.push, evidence) if task is not None] + online.flush()
    assert told == truth.tolist()
    assert segment(evidence, switch_cost(20, 3)).tolist() == truth.tolist()


def test_the_cost_follows_from_the_model() -> None:
    assert switch_cost(50, 5) == pytest.approx(math.log(49 * 4))
    assert switch_cost(1, 5) == 0.0  # a change after every sample
    assert switch_cost(10, 1) == 0.0
    with pytest.raises(SettingsError, match=r"mean_run must be >= 1"):
        switch_cost(0.5, 3)


def test_tempering_bounds_what_one_sample_says() -> None:
    evidence = torch.tensor([[0.0, -200.0]])
    assert temper_evidence(evidence, error=0.0)[0, 1] == pytest.approx(-200)
    assert temper_evidence(evidence, error=0.1)[0].tolist() == pytest.approx([math.log(0.95), math.log(0.05)])
    with pytest.raises(SettingsError, match="between 0 and 1"):
        temper_evidence(evidence, error=2.0)


def test_runs_are_numbered() -> None:
    assert runs(torch.tensor([3, 3, 1, 3, 3])).tolist() == [0, 0, 1, 2, 2]
    assert runs(torch.zeros(0, dtype=torch.int64)).tolist() == []


@pytest.mark.parametrize("mean", [5, 40])
def test_the_mean_run_is_found_from_the_stream(mean: int) -> None:
    generator = seeding.generator(mean, "chain")
    tasks, truth = 4, [0]
    for draw in torch.rand(1999, generator=generator).tolist():
        truth.append(truth[-1] if draw > 1 / mean else (truth[-1] + 1 + int(draw * mean * 3)) % tasks)
    right = torch.rand(2000, generator=generator) < 0.85
    votes = torch.where(right, torch.tensor(truth), torch.randint(0, tasks, (2000,), generator=generator))
    evidence = torch.full((2000, tasks), 0.15 / 4).double()
    evidence[torch.arange(2000), votes] += 0.85
    assert estimate_mean_run(evidence.log()) == pytest.approx(mean, rel=0.25)
    assert estimate_mean_run(torch.zeros(9, 1)) > 1000  # a single task never changes


def test_evidence_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="table"):
        segment(torch.zeros(3), 1.0)
    with pytest.raises(DataError, match="finite"):
        segment(torch.tensor([[0.0, float("nan")]]), 1.0)
    with pytest.raises(SettingsError, match=r"switch_cost must be >= 0 \(got -1"):
        segment(torch.zeros(3, 2), -1.0)
    assert segment(torch.zeros(0, 2), 1.0).tolist() == []
