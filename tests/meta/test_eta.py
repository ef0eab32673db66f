"""The controller eta: values worked by hand."""

from __future__ import annotations

import math

import pytest

from itaml.meta.eta import eta


@pytest.mark.parametrize(
    ("task", "beta", "horizon", "exponent"),
    [(1, 1.0, 5, -0.2), (5, 1.0, 5, -1.0), (3, 0.5, 10, -0.15), (10, 2.0, 10, -2.0), (1, 0.0, 4, 0.0)],
)
def test_the_papers_rule(task: int, beta: float, horizon: int, exponent: float) -> None:
    assert eta(task, beta=beta, horizon=horizon) == pytest.approx(math.exp(exponent), rel=1e-15)


def test_hand_value() -> None:
    assert eta(1, beta=1.0, horizon=2) == pytest.approx(0.60653066, abs=1e-8)  # exp(-1/2)


def test_the_last_task_moves_exp_of_beta_slower_than_a_full_step() -> None:
    assert eta(7, beta=0.7, horizon=7) == pytest.approx(math.exp(-0.7))


@pytest.mark.parametrize("task", [6, 7, 100])
def test_beyond_the_horizon_eta_stays(task: int) -> None:
    assert eta(task, beta=1.5, horizon=5) == eta(5, beta=1.5, horizon=5)


@pytest.mark.parametrize(("task", "exponent"), [(1, 0.0), (2, -0.5), (3, -2 / 3), (4, -0.75)])
def test_open_ended_rule(task: int, exponent: float) -> None:
    assert eta(task, beta=1.0, horizon=None) == pytest.approx(math.exp(exponent), rel=1e-15)


def test_open_ended_eta_falls_towards_where_the_papers_rule_ends() -> None:
    values = [eta(task, beta=1.0, horizon=None) for task in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    assert math.exp(-1) < values[-1] < math.exp(-1) + 0.002
