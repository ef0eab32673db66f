"""The losses on numbers worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.losses import Loss, Negatives, sample_losses, shift_logits, task_mean, task_weights
from itaml.meta.engines.fused import fused_loss
from itaml.models.task_map import TaskMap

TABLE = TaskMap(((0, 1), (2, 3, 4)))
LOGITS = torch.tensor([[1.0, -1.0, 3.0, 0.0, 0.0], [0.0, 2.0, 0.0, 1.0, -1.0]], dtype=torch.float64)
TARGETS = torch.tensor([0, 3])


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def exp_sum(*values: float) -> float:
    return sum(map(math.exp, values))


@pytest.mark.parametrize(
    ("loss", "negatives", "expected"),
    [
        # BCE of a logit x is softplus(-x) for the right class and softplus(x) for another.
        ("bce", "own", [(softplus(-1) + softplus(-1)) / 2, (softplus(0) + softplus(-1) + softplus(-1)) / 3]),
        (
            "bce",
            "seen",
            [
                (softplus(-1) + softplus(-1) + softplus(3) + 2 * softplus(0)) / 5,
                (softplus(0) + softplus(2) + softplus(0) + softplus(-1) + softplus(-1)) / 5,
            ],
        ),
        ("ce", "own", [math.log(exp_sum(1, -1)) - 1, math.log(exp_sum(0, 1, -1)) - 1]),
        ("ce", "seen", [math.log(exp_sum(1, -1, 3, 0, 0)) - 1, math.log(exp_sum(0, 2, 0, 1, -1)) - 1]),
    ],
)
def test_sample_losses_by_hand(loss: Loss, negatives: Negatives, expected: list[float]) -> None:
    found = sample_losses(LOGITS, TARGETS, TABLE, loss=loss, negatives=negatives)
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", ["bce", "ce"])
def test_own_columns_get_no_gradient_from_other_tasks(loss: Loss) -> None:
    logits = LOGITS.clone().requires_grad_()
    sample_losses(logits, TARGETS, TABLE, loss=loss, negatives="own").sum().backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad != 0, TABLE.own_columns[torch.tensor([0, 1])])


def test_task_weights_average_within_a_task_and_then_over_all_tasks_absent_ones_counted() -> None:
    tasks = torch.tensor([0, 0, 0, 2])  # three samples of task 0, none of 1, one of 2
    assert task_weights(tasks, 3, dtype=torch.float64).tolist() == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 3])
    losses = torch.tensor([1.0, 2.0, 6.0, 5.0])
    assert float(task_mean(losses, tasks, 3)) == pytest.approx((3.0 + 0.0 + 5.0) / 3)


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("negatives", ["own", "seen"])
def test_fused_loss_is_the_mean_over_tasks_of_their_mean_losses(loss: Loss, negatives: Negatives) -> None:
    logits: Tensor = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = torch.tensor([0, 1, 0, 2, 4, 4, 3])
    each = sample_losses(logits, targets, TABLE, loss=loss, negatives=negatives)
    expected = (each[:3].mean() + each[3:].mean()) / 2
    assert float(fused_loss(logits, targets, TABLE, loss=loss, negatives=negatives)) == pytest.approx(float(expected))


def test_half_precision_logits_are_judged_in_single_precision() -> None:
    found = sample_losses(LOGITS.bfloat16(), TARGETS, TABLE, loss="ce", negatives="seen")
    assert found.dtype == torch.float32


def test_shifted_logits_ask_of_frequent_classes_to_be_surer() -> None:
    """Equal logits of classes with three images and one: the shares are 3/4 and 1/4."""
    logits = torch.zeros(2, 2, dtype=torch.float64)
    loss = F.cross_entropy(shift_logits(logits, torch.tensor([3, 1])), torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(-(math.log(3 / 4) + math.log(1 / 4)) / 2)


def test_shifted_logits_of_equally_frequent_classes_have_the_plain_loss() -> None:
    plain = sample_losses(LOGITS, TARGETS, TABLE, loss="ce", negatives="seen").mean()
    torch.testing.assert_close(F.cross_entropy(shift_logits(LOGITS, torch.full((5,), 7)), TARGETS), plain)


def test_the_loss_of_shifted_logits_is_least_where_classes_that_look_alike_get_equal_logits() -> None:
    """Images that cannot be told apart, nine of one class and one of the other: the logits learned are equal."""
    logit = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0] * 9 + [1])
    F.cross_entropy(shift_logits(logit.expand(10, 2), torch.tensor([9, 1])), targets).backward()
    assert logit.grad is not None
    torch.testing.assert_close(logit.grad, torch.zeros(2, dtype=torch.float64))


def test_the_strength_multiplies_the_shift() -> None:
    counts = torch.tensor([1, 10, 100])
    shifted = shift_logits(torch.zeros(1, 3), counts, strength=2.0)
    assert shifted.tolist() == [pytest.approx([0.0, math.log(100), math.log(10_000)])]
