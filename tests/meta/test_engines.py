"""The fused engine against the loop, step by step, in double precision; and where they are known to differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from itaml import params
from itaml.losses import Loss, Negatives
from itaml.params import Weights
from support import draw_batch, gap, make_itaml, same_bits, small_classifier

UNEVEN = (3, 2, 4, 2, 2, 5, 2, 3, 2, 2)


def train(
    engine: str, counts: Sequence[tuple[int, ...]], *, tasks: int, norm: bool = False, **settings: Any
) -> Weights:
    """Take one step a row of `counts` (samples of each task) and return the weights."""
    sizes = UNEVEN[:tasks]
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5), nn.Tanh()) if norm else None
    model = small_classifier(sizes, hidden=(6,), backbone=backbone)
    learner = make_itaml(model, engine=engine, lr=0.3, beta=0.7, **settings)
    optimizer = learner.trainer.optimizer()
    model.train()
    for seed, row in enumerate(counts):
        for group in optimizer.param_groups:
            group["lr"] = learner.settings.lr  # as the trainer does
        learner.method.step(learner.context.make_batch(*draw_batch(row, sizes, seed=seed)), optimizer)
    return params.snapshot(model)


def present(tasks: int, *, steps: int = 4) -> list[tuple[int, ...]]:
    return [tuple(1 + (seed + 2 * task) % 4 for task in range(tasks)) for seed in range(steps)]


def absent(tasks: int, *, steps: int = 5) -> list[tuple[int, ...]]:
    """Return rows in which a task is absent now and then, and the last one at first."""
    rows = [tuple(0 if (seed + task) % 3 == 0 else 1 + task % 3 for task in range(tasks)) for seed in range(1, steps)]
    return [(2, *[0] * (tasks - 1)), *[row if any(row) else (1, *row[1:]) for row in rows]]


@pytest.mark.parametrize("tasks", range(1, 11))
@pytest.mark.parametrize("negatives", ["own", "seen"])
@pytest.mark.parametrize("loss", ["bce", "ce"])
def test_fused_equals_loop(tasks: int, negatives: Negatives, loss: Loss) -> None:
    for counts in (present(tasks), absent(tasks)):
        for decay in (0.0, 0.05):
            setting: dict[str, Any] = {"negatives": negatives, "loss": loss, "weight_decay": decay}
            fused = train("fused", counts, tasks=tasks, **setting)
            assert gap(fused, train("loop", counts, tasks=tasks, **setting)) < 1e-10
            assert gap(fused, train("fused", [], tasks=tasks)) > 1e-3


@pytest.mark.parametrize("tasks", [1, 3, 10])
@pytest.mark.parametrize("negatives", ["own", "seen"])
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_fused_equals_loop_with_momentum_while_no_task_is_absent(tasks: int, negatives: str, decay: float) -> None:
    setting: dict[str, Any] = {"negatives": negatives, "momentum": 0.9, "weight_decay": decay}
    fused, loop = (train(engine, present(tasks), tasks=tasks, **setting) for engine in ("fused", "loop"))
    assert gap(fused, loop) < 1e-10


def test_auto_is_fused_for_one_inner_step_and_else_batched_where_that_is_exact() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "fused"),
        ({"inner_steps": 2}, "batched"),
        ({"inner_steps": 2, "norm": True}, "loop"),
        ({"update": "released"}, "loop"),
    ]
    for setting, engine in cases:
        auto = train("auto", present(3), tasks=3, **setting)
        assert same_bits(auto, train(engine, present(3), tasks=3, **setting))


@pytest.mark.parametrize(
    "setting",
    [{"optimizer": "adam"}, {"optimizer": "radam"}, {"norm": True}],
    ids=["adam", "radam", "batch norm"],
)
def test_the_engines_differ_for_adaptive_optimisers_and_batch_norm(setting: dict[str, Any]) -> None:
    counts = present(3, steps=8)  # RAdam is plain momentum in its first steps
    fused, loop = (train(engine, counts, tasks=3, **setting) for engine in ("fused", "loop"))
    assert gap(fused, loop) > 1e-4


def test_momentum_differs_when_a_task_is_absent() -> None:
    fused, loop = (train(engine, absent(3), tasks=3, momentum=0.9) for engine in ("fused", "loop"))
    assert gap(fused, loop) > 1e-4


@pytest.mark.parametrize("engine", ["fused", "loop"])
def test_clipping_limits_the_step(engine: str) -> None:
    start, free, clipped = (
        train(engine, rows, tasks=1, clip=clip) for rows, clip in [([], 0.0), ([(4,)], 0.0), ([(4,)], 1e-3)]
    )

    def length(weights: Weights) -> float:
        return float(torch.cat([value.flatten() for value in params.subtract(weights, start).values()]).norm())

    rate = 0.3 * torch.tensor(-0.07, dtype=torch.float64).exp().item()  # lr * eta: beta 0.7, task 1 of 10
    assert length(clipped) == pytest.approx(rate * 1e-3, rel=1e-3)
    assert length(free) > 10 * length(clipped)
