"""The outer step: order, storage, the ends of eta, and the released variant on numbers worked by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer, RAdam

from itaml import params
from itaml.meta.algorithm1 import meta_step, released_step
from itaml.meta.inner_loop import InnerLoop, MicroBatch, micro_batches
from itaml.models.classifier import Classifier
from itaml.params import Weights
from support import draw_batch, gap, make_itaml, same_bits, small_classifier

SIZES = (2, 3, 2)
OPTIMIZERS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd": lambda w: SGD(w, lr=0.2),
    "momentum": lambda w: SGD(w, lr=0.2, momentum=0.9),
    "adam": lambda w: Adam(w, lr=0.01),
    "radam": lambda w: RAdam(w, lr=0.01),
}


def loop(model: Classifier, optimizer: str, *, steps: int = 2) -> InnerLoop:
    return InnerLoop(model, make_optimizer=OPTIMIZERS[optimizer], steps=steps, loss="bce", negatives="own")


def batches_of(model: Classifier, seed: int) -> list[MicroBatch]:
    images, targets = draw_batch((4, 3, 2), SIZES, seed=seed)
    return micro_batches(images, targets, model.task_map)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_order_of_tasks_does_not_matter(optimizer: str) -> None:
    results = []
    for order in [(0, 1, 2), (2, 0, 1), (1, 2, 0)]:
        model = small_classifier(SIZES)
        inner, weights = loop(model, optimizer), params.snapshot(model)
        for iteration in range(4):  # the optimisers' states are carried on through `finish_iteration`
            batches = batches_of(model, iteration)
            weights = meta_step(weights, [batches[task] for task in order], adapt=inner, eta=0.8)
            inner.finish_iteration()
        results.append(weights)
    assert gap(results[0], results[1]) < 1e-12
    assert gap(results[0], results[2]) < 1e-12
    assert gap(results[0], params.snapshot(small_classifier(SIZES))) > 0.001


@pytest.mark.parametrize("step", [meta_step, released_step])
def test_base_and_model_are_untouched_and_nothing_is_shared(step: Callable[..., Weights]) -> None:
    model = small_classifier(SIZES)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    base = params.snapshot(model)
    kept, batches = params.copy(base), batches_of(model, 0)
    adapted: list[Weights] = []
    inner = loop(model, "sgd")

    def adapt(weights: Weights, batch: MicroBatch) -> Weights:
        adapted.append(inner(weights, batch))
        return adapted[-1]

    moved = step(base, batches, adapt=adapt, eta=0.5)
    assert same_bits(base, kept)
    assert same_bits(dict(model.state_dict()), before)
    owners: list[Mapping[str, Tensor]] = [base, moved, dict(model.named_parameters()), *adapted]
    places = [value.untyped_storage().data_ptr() for weights in owners for value in weights.values()]
    assert len(set(places)) == len(places)


def test_eta_zero_returns_the_base_and_eta_one_the_mean() -> None:
    model = small_classifier(SIZES)
    base, batches, inner = params.snapshot(model), batches_of(model, 0), loop(model, "sgd")
    assert same_bits(meta_step(base, batches, adapt=inner, eta=0.0), base)
    mean = params.mean([inner(base, batch) for batch in batches])
    assert same_bits(meta_step(base, batches, adapt=inner, eta=1.0), mean)


def test_an_absent_task_counts_in_the_mean_as_the_base() -> None:
    def adapt(base: Weights, target: float | None) -> Weights:
        return {"w": base["w"].clone() if target is None else torch.tensor([target])}

    moved = meta_step({"w": torch.tensor([0.0])}, [3.0, None, 6.0], adapt=adapt, eta=1.0)
    assert moved["w"].item() == 3.0  # (3 + 0 + 6) / 3


def half_way(base: Weights, target: float) -> Weights:
    """Take one SGD step with rate 1/2 on (w - target)^2 / 2, whose gradient is w - target."""
    return {"w": base["w"] - 0.5 * (base["w"] - target)}


def test_two_tasks_by_hand_paper_and_released() -> None:
    base = {"w": torch.tensor([1.0], dtype=torch.float64)}
    # paper: both start at 1; they reach 2 and 0, whose mean is 1; half way from 1 to 1 is 1.
    assert meta_step(base, [3.0, -1.0], adapt=half_way, eta=0.5)["w"].item() == 1.0
    # released: 1 -> 2, and on from there 2 -> 0.5, which stands for the mean; half way from 1 to 0.5 is 0.75.
    assert released_step(base, [3.0, -1.0], adapt=half_way, eta=0.5)["w"].item() == 0.75
    # so the released rule depends on the order: -1 first gives 1 -> 0 -> 1.5, and half way is 1.25.
    assert released_step(base, [-1.0, 3.0], adapt=half_way, eta=0.5)["w"].item() == 1.25


def test_with_one_task_paper_and_released_agree() -> None:
    base = {"w": torch.tensor([1.0], dtype=torch.float64)}
    assert same_bits(
        meta_step(base, [3.0], adapt=half_way, eta=0.25), released_step(base, [3.0], adapt=half_way, eta=0.25)
    )


def test_released_eta_counts_tasks_from_zero() -> None:
    for count in (1, 2, 3):
        model = small_classifier((2,) * count)
        paper: Any = make_itaml(model, update="paper", horizon=3, beta=1.0)
        released: Any = make_itaml(model, update="released", horizon=3, beta=1.0)
        assert paper.method.eta() == pytest.approx(float(torch.tensor(-count / 3, dtype=torch.float64).exp()))
        assert released.method.eta() == pytest.approx(float(torch.tensor(-(count - 1) / 3, dtype=torch.float64).exp()))


def test_released_takes_one_inner_step_whatever_is_asked() -> None:
    results = []
    for steps in (1, 5):
        model = small_classifier((2, 2))
        learner = make_itaml(model, update="released", inner_steps=steps, loss="bce", negatives="own")
        images, targets = draw_batch((3, 3), (2, 2))
        learner.method.step(learner.context.make_batch(images, targets), learner.trainer.optimizer())
        results.append(params.snapshot(model))
    assert same_bits(results[0], results[1])


def test_released_momentum_and_decay_move_other_heads_by_hand() -> None:
    model = small_classifier((2, 2))
    base = params.snapshot(model)
    images, targets = draw_batch((3, 3), (2, 2))
    first, second = micro_batches(images, targets, model.task_map)
    inner = InnerLoop(
        model,
        make_optimizer=lambda w: SGD(w, lr=0.1, momentum=0.9, weight_decay=0.01),
        steps=1,
        loss="bce",
        negatives="own",
        shared_state=True,
        whole_head=True,
    )
    after_first = inner(base, first)
    after_second = inner(after_first, second)
    # Task 0's rows get no gradient from task 1, and still move: v = 0.9 v + 0.01 w, w = w - 0.1 v.
    rows, moved = base["head.weight"][:2], after_first["head.weight"][:2]
    velocity = 0.9 * (rows - moved) / 0.1 + 0.01 * moved
    assert torch.allclose(after_second["head.weight"][:2], moved - 0.1 * velocity, rtol=0, atol=1e-14)
    # And task 1's rows moved in task 0's loop, by decay alone.
    assert torch.allclose(
        after_first["head.weight"][2:], base["head.weight"][2:] * (1 - 0.1 * 0.01), rtol=0, atol=1e-15
    )


def test_released_eta_of_the_first_task_is_one_where_the_horizon_is_open() -> None:
    released: Any = make_itaml(small_classifier((2,)), update="released", horizon="open", beta=1.0)
    assert released.method.eta() == 1.0
