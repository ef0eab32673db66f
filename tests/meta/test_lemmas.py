"""Lemmas 1 and 2 of the paper, with gradients computed apart from the package."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from itaml import params
from itaml.meta.algorithm1 import meta_step
from itaml.meta.inner_loop import InnerLoop, MicroBatch, micro_batches
from itaml.models.classifier import Classifier
from itaml.params import Weights
from support import draw_batch, gap, small_classifier

SIZES = (2, 3, 2)
LR = 0.3


def gradient(model: Classifier, weights: Weights, batch: MicroBatch) -> Weights:
    """Return d/dw of the BCE over the task's own columns, averaged over samples and columns."""
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    columns = model.task_map.columns(batch.task)
    logits = functional_call(model, leaves, (batch.images,))[:, columns]
    truth = F.one_hot(batch.targets - columns.start, logits.shape[1]).to(logits)
    loss = F.binary_cross_entropy_with_logits(logits, truth)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def inner_loop(model: Classifier, *, steps: int) -> InnerLoop:
    return InnerLoop(
        model, make_optimizer=lambda w: torch.optim.SGD(w, lr=LR), steps=steps, loss="bce", negatives="own"
    )


def setting() -> tuple[Classifier, Weights, list[MicroBatch]]:
    model = small_classifier(SIZES)
    images, targets = draw_batch((6, 2, 1), SIZES)
    return model, params.snapshot(model), micro_batches(images, targets, model.task_map)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("task", range(3))
def test_lemma_1_the_meta_gradient_is_the_sum_of_the_gradients_of_the_inner_steps(steps: int, task: int) -> None:
    model, base, batches = setting()
    adapted = inner_loop(model, steps=steps)(base, batches[task])
    weights, total = base, {name: torch.zeros_like(value) for name, value in base.items()}
    for _ in range(steps):
        step_gradient = gradient(model, weights, batches[task])
        total = {name: total[name] + step_gradient[name] for name in total}
        weights = {name: weights[name] - LR * step_gradient[name] for name in weights}
    found = {name: value / LR for name, value in params.subtract(base, adapted).items()}
    assert gap(found, total) < 1e-13
    assert max(float(value.abs().max()) for value in total.values()) > 0.05


def mean_gradient(model: Classifier, base: Weights, batches: list[MicroBatch]) -> Weights:
    gradients = [gradient(model, base, batch) for batch in batches]
    return {name: torch.stack([step_gradient[name] for step_gradient in gradients]).mean(0) for name in base}


def test_lemma_2_one_inner_step_moves_by_eta_times_the_mean_of_the_task_gradients() -> None:
    model, base, batches = setting()
    moved = meta_step(base, batches, adapt=inner_loop(model, steps=1), eta=0.7)
    found = {name: value / LR for name, value in params.subtract(base, moved).items()}
    expected = {name: 0.7 * value for name, value in mean_gradient(model, base, batches).items()}
    assert gap(found, expected) < 1e-14


def test_lemma_2_is_not_the_joint_gradient() -> None:
    model, base, batches = setting()
    count = sum(len(batch.targets) for batch in batches)
    shares = [len(batch.targets) / count for batch in batches]  # the joint gradient weighs tasks by their samples
    gradients = [gradient(model, base, batch) for batch in batches]
    joint: dict[str, Tensor] = {
        name: torch.stack(
            [share * step_gradient[name] for share, step_gradient in zip(shares, gradients, strict=True)]
        ).sum(0)
        for name in base
    }
    assert gap(mean_gradient(model, base, batches), joint) > 0.01
