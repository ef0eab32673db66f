"""Numbers made of accuracies, by hand."""

from __future__ import annotations

import pytest
import torch

from itaml.metrics.matrix import average_incremental, backward_transfer, forgetting, square
from itaml.metrics.scores import accuracy, confusion, group_accuracy


def test_accuracy_and_by_group() -> None:
    hits = torch.tensor([True, False, True, True])
    assert accuracy(hits) == 0.75
    assert group_accuracy(hits, torch.tensor([0, 0, 1, 1]), 2) == [0.5, 1.0]


def test_average_incremental() -> None:
    assert average_incremental([1.0, 0.5, 0.6]) == pytest.approx(0.7)


def test_forgetting_by_hand() -> None:
    # Task 0: best 0.9, now 0.5. Task 1: best 0.8 (not in the last row), now 0.9: it got better. Mean of 0.4 and -0.1.
    matrix = square([[0.9], [0.7, 0.8], [0.5, 0.9, 1.0]])
    assert forgetting(matrix) == pytest.approx(0.15)
    assert forgetting(square([[0.9]])) == 0.0


def test_backward_transfer_by_hand() -> None:
    # Task 0: 0.9 right after it was learned, 0.5 now. Task 1: 0.8, 0.9 now. Mean of -0.4 and 0.1.
    assert backward_transfer(square([[0.9], [0.95, 0.8], [0.5, 0.9, 1.0]])) == pytest.approx(-0.15)


def test_backward_transfer_of_a_single_task_is_not_defined() -> None:
    assert backward_transfer(square([[0.9]])) is None


def test_square_fills_with_none() -> None:
    assert square([[1.0], [0.5, 0.75]]) == [[1.0, None], [0.5, 0.75]]


def test_confusion_counts_true_by_row() -> None:
    assert confusion(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]), 2) == [[1, 1], [0, 2]]
