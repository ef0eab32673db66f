"""The inner loop against `torch.optim` on a live model, and whole iTAML steps against a plain script."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml import params
from itaml.meta.inner_loop import InnerLoop, micro_batches
from itaml.optimizers import make_optimizer
from support import draw_batch, gap, make_itaml, small_classifier

OPTIMIZERS: dict[str, tuple[dict[str, Any], Callable[[Any], torch.optim.Optimizer]]] = {
    "sgd": ({"name": "sgd", "lr": 0.1}, lambda w: torch.optim.SGD(w, lr=0.1)),
    "momentum": (
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "adam": ({"name": "adam", "lr": 0.01}, lambda w: torch.optim.Adam(w, lr=0.01, foreach=False)),
    "adamw": (
        {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
        lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1, foreach=False),
    ),
    "radam": ({"name": "radam", "lr": 0.01}, lambda w: torch.optim.RAdam(w, lr=0.01)),
    "rmsprop": (
        {"name": "rmsprop", "lr": 0.01, "momentum": 0.5},
        lambda w: torch.optim.RMSprop(w, lr=0.01, momentum=0.5),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_task_is_plain_training_with_that_optimiser(name: str) -> None:
    """With a single task and eta 1, iterations of r steps are r steps of the optimiser, its state carried on."""
    options, plain = OPTIMIZERS[name]
    model = small_classifier((3,))
    twin = copy.deepcopy(model)
    inner = InnerLoop(
        model,
        make_optimizer=lambda w: make_optimizer(parameters=w, **options),
        steps=2,
        loss="ce",
        negatives="own",
    )
    optimizer = plain(twin.parameters())
    weights = params.snapshot(model)
    for seed in range(5):
        images, targets = draw_batch((6,), (3,), seed=seed)
        weights = inner(weights, micro_batches(images, targets, model.task_map)[0])
        inner.finish_iteration()
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(twin(images), targets).backward()
            optimizer.step()
    assert gap(weights, params.snapshot(twin)) < 1e-11


def script_iteration(
    model: nn.Module, groups: list[tuple[Tensor, Tensor, int, int]], lr: float, eta: float, r: int
) -> None:
    """Algorithm 1 as one would write it down without a package: copy, train with BCE on own columns, average, pull."""
    copies = []
    for images, targets, start, stop in groups:
        twin = copy.deepcopy(model)
        for _ in range(r):
            twin.zero_grad()
            own = twin(images)[:, start:stop]
            F.binary_cross_entropy_with_logits(own, F.one_hot(targets - start, stop - start).double()).backward()
            with torch.no_grad():
                for parameter in twin.parameters():
                    assert parameter.grad is not None
                    parameter.sub_(lr * parameter.grad)
        copies.append(dict(twin.named_parameters()))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = torch.stack([weights[name] for weights in copies]).mean(0)
            parameter.copy_(eta * mean + (1 - eta) * parameter)


@pytest.mark.parametrize(("engine", "r"), [("fused", 1), ("loop", 1), ("loop", 3)])
def test_the_learner_takes_the_steps_of_a_plain_script(engine: str, r: int) -> None:
    sizes = (2, 3)
    model = small_classifier(sizes)
    twin = copy.deepcopy(model)
    learner = make_itaml(model, engine=engine, inner_steps=r, loss="bce", negatives="own", lr=0.2, beta=0.5, horizon=4)
    optimizer = learner.trainer.optimizer()
    eta = math.exp(-0.5 * 2 / 4)
    for seed in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.2  # the fused step multiplies it by eta
        images, targets = draw_batch((5, 3), sizes, seed=seed)
        learner.method.step(learner.context.make_batch(images, targets), optimizer)
        first = targets < 2
        groups = [(images[first], targets[first], 0, 2), (images[~first], targets[~first], 2, 5)]
        script_iteration(twin, groups, 0.2, eta, r)
    assert gap(params.snapshot(model), params.snapshot(twin)) < 1e-13


def test_every_optimiser_of_torch_is_offered_by_name_or_left_out_for_a_reason() -> None:
    from itaml.optimizers import optimizer_names

    names = optimizer_names()
    assert {"sgd", "adam", "radam", "adamw", "rmsprop"} <= set(names)
    assert not {"lbfgs", "sparseadam", "optimizer"} & set(names)
