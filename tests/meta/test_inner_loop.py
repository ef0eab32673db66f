"""The decisions of the inner loop: what it touches, and what is carried from one loop to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam, Optimizer

from itaml import params
from itaml.losses import sample_losses
from itaml.meta.algorithm1 import meta_step
from itaml.meta.inner_loop import InnerLoop, MicroBatch, micro_batches
from itaml.models.classifier import Classifier
from itaml.optimizers import copy_in_layout, make_optimizer
from itaml.params import Weights
from support import draw_batch, gap, same_bits, small_classifier

SIZES = (2, 3, 2)


def loop(model: Classifier, optimizer: Callable[[list[Any]], Optimizer], **options: Any) -> InnerLoop:
    chosen: dict[str, Any] = {"steps": 1, "loss": "bce", "negatives": "own"} | options
    return InnerLoop(model, make_optimizer=optimizer, **chosen)


def batches_of(model: Classifier, counts: tuple[int, ...] = (4, 3, 2), seed: int = 0) -> list[MicroBatch]:
    return micro_batches(*draw_batch(counts, SIZES, seed=seed), model.task_map)


def with_norm() -> Classifier:
    torch.manual_seed(3)
    return small_classifier(
        SIZES, backbone=nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.BatchNorm1d(5), nn.Tanh())
    ).train()


def plain(w: list[Any]) -> Optimizer:
    return SGD(w, lr=0.2)


def heavy(w: list[Any]) -> Optimizer:
    return make_optimizer("sgd", w, lr=0.2, momentum=0.9, weight_decay=0.05)


def adam(w: list[Any]) -> Optimizer:
    return make_optimizer("adam", w, lr=0.05, weight_decay=0.05)


def gradient(model: Classifier, weights: Weights, batch: MicroBatch) -> Weights:
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    logits = functional_call(model, leaves, (batch.images,))
    loss = sample_losses(logits, batch.targets, model.task_map, loss="bce", negatives="own").mean()
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def test_micro_batches_group_by_task_and_keep_empty_ones() -> None:
    model = small_classifier(SIZES)
    images = torch.arange(5.0).reshape(5, 1, 1, 1).expand(5, 1, 4, 4)
    groups = micro_batches(images, torch.tensor([6, 0, 5, 1, 0]), model.task_map)
    assert [group.task for group in groups] == [0, 1, 2]
    assert [group.targets.tolist() for group in groups] == [[0, 1, 0], [], [6, 5]]
    assert [group.images[:, 0, 0, 0].tolist() for group in groups] == [[1, 3, 4], [], [0, 2]]


@pytest.mark.parametrize("optimizer", [plain, heavy, adam])
@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("task", range(3))
def test_own_negatives_leave_other_heads_bit_identical(
    optimizer: Callable[[list[Any]], Optimizer], loss: str, task: int
) -> None:
    model = small_classifier(SIZES)
    inner, weights = loop(model, optimizer, loss=loss, steps=3), params.snapshot(model)
    for seed in range(3):  # so that momentum has built up
        adapted = inner(weights, batches_of(model, seed=seed)[task])
        inner.finish_iteration()
        own = model.task_map.columns(task)
        others = [column for column in range(7) if not own.start <= column < own.stop]
        assert torch.equal(adapted["head.weight"][others], weights["head.weight"][others])
        assert torch.equal(adapted["head.bias"][others], weights["head.bias"][others])
        assert not torch.equal(adapted["head.weight"][own], weights["head.weight"][own])
        weights = adapted


def test_seen_negatives_move_every_head() -> None:
    model = small_classifier(SIZES)
    base = params.snapshot(model)
    adapted = loop(model, plain, negatives="seen")(base, batches_of(model)[0])
    assert bool((adapted["head.bias"] != base["head.bias"]).all())


def test_every_loop_starts_from_the_state_of_the_base() -> None:
    model = small_classifier(SIZES)
    base, batches = params.snapshot(model), batches_of(model)
    inner = loop(model, heavy)
    first = inner(base, batches[0])
    inner(base, batches[1])
    assert same_bits(inner(base, batches[0]), first)


def test_settle_averages_momentum_over_the_loops_that_changed_a_parameter() -> None:
    model = small_classifier(SIZES)
    base, batches = params.snapshot(model), batches_of(model, (4, 0, 2))  # task 1 is absent
    inner = loop(model, lambda w: SGD(w, lr=0.2, momentum=0.9))
    meta_step(base, batches, adapt=inner, eta=1.0)
    inner.finish_iteration()
    gradients = [gradient(model, base, batches[task]) for task in (0, 2)]
    backbone = inner.state["backbone.1.weight"]["momentum_buffer"]
    expected = (gradients[0]["backbone.1.weight"] + gradients[1]["backbone.1.weight"]) / 2
    assert torch.allclose(backbone, expected, rtol=0, atol=1e-15)
    rows = inner.state["head.weight[2]"]["momentum_buffer"]
    assert torch.allclose(rows, gradients[1]["head.weight"][5:], rtol=0, atol=1e-15)
    assert "head.weight[1]" not in inner.state


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "radam", "rmsprop", "adagrad"])
def test_a_task_may_be_met_later_than_the_others(name: str) -> None:
    """Its rows have no optimiser state when the backbone has one; they begin like any fresh parameter."""
    model = small_classifier(SIZES)
    inner = loop(model, lambda w: make_optimizer(name, w, lr=0.1, momentum=0.9))
    weights = params.snapshot(model)
    for counts in [(3, 3, 0), (3, 0, 2)]:
        weights = meta_step(weights, batches_of(model, counts), adapt=inner, eta=1.0)
        inner.finish_iteration()
    last = batches_of(model, (0, 0, 2))[2]
    alone = loop(model, lambda w: make_optimizer(name, w, lr=0.1, momentum=0.9))
    inner.state = {key: value for key, value in inner.state.items() if "[2]" not in key}
    assert torch.equal(inner(weights, last)["head.weight"], alone(weights, last)["head.weight"])


def test_a_restored_state_is_laid_out_like_its_parameter() -> None:
    like = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    value = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    copied = copy_in_layout(value, like)
    assert torch.equal(copied, value)
    assert copied.stride() == like.stride() != value.stride()
    step = torch.tensor(3.0)
    assert copy_in_layout(step, like) is not step
    assert copy_in_layout(None, like) is None


def test_shared_state_goes_on_from_loop_to_loop() -> None:
    model = small_classifier(SIZES)
    base, batches = params.snapshot(model), batches_of(model)
    inner = loop(model, lambda w: SGD(w, lr=0.2, momentum=0.9), shared_state=True, whole_head=True)
    inner(base, batches[0])
    inner(base, batches[1])
    gradients = [gradient(model, base, batches[task])["backbone.1.weight"] for task in (0, 1)]
    found = inner.state["backbone.1.weight"]["momentum_buffer"]
    assert torch.allclose(found, 0.9 * gradients[0] + gradients[1], rtol=0, atol=1e-15)


def test_settle_returns_the_mean_of_the_first_losses() -> None:
    model = small_classifier(SIZES)
    base, batches = params.snapshot(model), batches_of(model)
    inner = loop(model, plain, steps=4)
    for batch in batches:
        inner(base, batch)
    expected = [
        sample_losses(model(batch.images), batch.targets, model.task_map, loss="bce", negatives="own").mean()
        for batch in batches
    ]
    assert inner.finish_iteration() == pytest.approx(torch.stack(expected).mean().item(), rel=1e-12)
    assert inner.finish_iteration() == 0.0


def batch_statistics(model: Classifier, images: Tensor) -> Tensor:
    """Return the mean a channel before the normalisation, of these images alone."""
    flat = images.flatten(1)
    linear = model.backbone[1]  # type: ignore[index]
    assert isinstance(linear, nn.Linear)
    return (flat @ linear.weight.T + linear.bias).mean(0).detach()


def test_batch_norm_statistics_are_averaged_over_the_loops() -> None:
    model = with_norm()
    base, batches = params.snapshot(model), batches_of(model)
    inner = loop(model, plain)
    before = params.snapshot_buffers(model)
    for batch in batches:
        inner(base, batch)
    assert same_bits(params.snapshot_buffers(model), before)  # nothing moves until all loops are done
    inner.finish_iteration()
    after = params.snapshot_buffers(model)
    means = torch.stack([batch_statistics(model, batch.images) for batch in batches])
    expected = 0.9 * before["backbone.2.running_mean"] + 0.1 * means.mean(0)  # momentum 0.1, torch's default
    assert torch.allclose(after["backbone.2.running_mean"], expected, rtol=0, atol=1e-15)
    assert int(after["backbone.2.num_batches_tracked"]) == 1
    assert torch.equal(after["normalize.mean"], before["normalize.mean"])


def test_statistics_that_no_loop_changes_do_not_drift() -> None:
    model = small_classifier((2,) * 10).float()
    model.normalize.mean.fill_(0.1307)
    model.normalize.std.fill_(0.3081)
    inner, weights = loop(model, lambda w: SGD(w, lr=0.1)), params.snapshot(model)
    images, targets = draw_batch((1,) * 10, (2,) * 10)
    for _ in range(20):
        weights = meta_step(weights, micro_batches(images.float(), targets, model.task_map), adapt=inner, eta=0.9)
        inner.finish_iteration()
    assert torch.equal(model.normalize.mean, torch.tensor([0.1307]))
    assert torch.equal(model.normalize.std, torch.tensor([0.3081]))


def test_shared_statistics_go_on_from_loop_to_loop() -> None:
    model = with_norm()
    base, batches = params.snapshot(model), batches_of(model)
    inner = loop(model, plain, shared_state=True, whole_head=True)
    before = model.backbone[2].running_mean.clone()  # type: ignore[index]
    for batch in batches[:2]:
        inner(base, batch)
    first, second = (batch_statistics(model, batch.images) for batch in batches[:2])
    expected = 0.9 * (0.9 * before + 0.1 * first) + 0.1 * second
    found = params.snapshot_buffers(model)["backbone.2.running_mean"]
    assert torch.allclose(found, expected, rtol=0, atol=1e-15)


def test_a_single_image_is_normalised_with_the_running_statistics_and_leaves_them_alone() -> None:
    model = with_norm()
    base, batch = params.snapshot(model), batches_of(model, (1, 2, 2))[0]
    inner = loop(model, plain)
    before = params.snapshot_buffers(model)
    adapted = inner(base, batch)
    inner.finish_iteration()
    assert same_bits(params.snapshot_buffers(model), before)
    assert all(module.training for module in model.modules())
    expected_gradient = gradient(model.eval(), base, batch)
    assert gap(adapted, {name: base[name] - 0.2 * expected_gradient[name] for name in base}) < 1e-15


def test_adam_counts_its_steps_with_the_weights() -> None:
    model = small_classifier(SIZES)
    weights = params.snapshot(model)
    inner = loop(model, lambda w: Adam(w, lr=0.01), steps=3)
    for seed in range(2):
        weights = meta_step(weights, batches_of(model, seed=seed), adapt=inner, eta=0.5)
        inner.finish_iteration()
    assert {float(state["step"]) for state in inner.state.values()} == {6.0}
