"""Algorithm 2 and the other task scores, on logits worked by hand and against naive computations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from itaml.inference.class_prediction import joint_probabilities, predict_classes, task_posterior
from itaml.inference.task_calibration import fit_task_calibration
from itaml.inference.task_prediction import (
    continuum_means,
    energies,
    log_posteriors,
    max_responses,
    predict_tasks,
    robust_log_probabilities,
)
from itaml.models.task_map import TaskMap

TABLE = TaskMap(((7, 3), (5,), (0, 9, 4)))  # uneven, and class ids that are not columns
LOGITS = torch.tensor(
    [
        [1.0, 2.0, 0.5, -1.0, 0.0, 1.5],
        [0.0, -1.0, 3.0, 2.0, 2.5, 0.0],
        [-2.0, -3.0, -4.0, -1.5, -5.0, -6.0],
    ]
)


def test_largest_response_a_task_by_hand() -> None:
    assert max_responses(LOGITS, TABLE).tolist() == [[2.0, 0.5, 1.5], [0.0, 3.0, 2.5], [-2.0, -4.0, -1.5]]


def test_task_of_a_continuum_by_hand() -> None:
    scores = max_responses(LOGITS, TABLE)
    # Alone: 2.0 wins in row 0, 3.0 in row 1, -1.5 in row 2. Together, sums 0.0, -0.5, 2.5: task 2.
    assert predict_tasks(scores, torch.tensor([0, 1, 2])).tolist() == [0, 1, 2]
    assert predict_tasks(scores, torch.tensor([0, 0, 0])).tolist() == [2]
    # Rows 0 and 2: 0.0, -3.5, 0.0 is a tie, which the first task wins; row 1 alone is task 1.
    assert predict_tasks(scores, torch.tensor([0, 1, 0])).tolist() == [0, 1]


def test_a_continuum_is_its_mean_so_that_sizes_can_be_compared() -> None:
    means = continuum_means(max_responses(LOGITS, TABLE), torch.tensor([1, 0, 1]))
    assert means.tolist() == [[0.0, 3.0, 2.5], [0.0, -1.75, 0.0]]
    assert continuum_means(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).shape == (0, 3)


def naive_log_posterior(row: list[float], task_map: TaskMap) -> list[float]:
    total = math.fsum(map(math.exp, row))
    masses, start = [], 0
    for size in task_map.sizes:
        masses.append(math.log(math.fsum(math.exp(value) for value in row[start : start + size]) / total))
        start += size
    return masses


def test_log_posterior_against_a_naive_sum() -> None:
    for row, found in zip(LOGITS.tolist(), log_posteriors(LOGITS, TABLE).tolist(), strict=True):
        assert found == pytest.approx(naive_log_posterior(row, TABLE), abs=1e-12)


def test_log_posterior_of_enormous_logits_is_finite_and_orders_tasks() -> None:
    found = log_posteriors(torch.tensor([[1e4, 0.0, -1e4, 5e3, 0.0, 0.0]]), TABLE)
    assert bool(found.isfinite().all())
    assert found.argmax().item() == 0
    assert found[0, 0].item() == 0.0


def test_log_posterior_and_max_logit_can_disagree() -> None:
    logits = torch.tensor([[2.0, -9.0, -9.0, 1.9, 1.9, 1.9]])  # one strong response against three nearly as strong
    assert predict_tasks(max_responses(logits, TABLE), torch.tensor([0])).tolist() == [0]
    assert predict_tasks(log_posteriors(logits, TABLE), torch.tensor([0])).tolist() == [2]


def test_class_inside_the_task_by_hand() -> None:
    asked: list[tuple[list[int], int]] = []

    def adapted(rows: Tensor, task: int) -> Tensor:
        asked.append((rows.tolist(), task))
        return LOGITS[rows][:, TABLE.columns(task)]

    classes, inside = predict_classes(torch.tensor([2, 2, 0]), TABLE, adapted)
    # Row 0 in task 2 (classes 0, 9, 4): -1, 0, 1.5 is class 4. Row 1: 2, 2.5, 0 is class 9. Row 2 in task 0: class 7.
    assert classes.tolist() == [4, 9, 7]
    assert sorted(asked) == [([0, 1], 2), ([2], 0)]
    share = math.exp(1.5) / (math.exp(-1) + 1 + math.exp(1.5))
    assert inside[0].tolist()[:3] == [0, 0, 0]
    assert inside[0, 5].item() == pytest.approx(share)
    assert inside.sum(1).tolist() == pytest.approx([1, 1, 1])


def test_task_posterior_adds_evidence_up_over_a_continuum() -> None:
    evidence = torch.tensor([[0.5, 0.5], [0.8, 0.2], [0.8, 0.2]], dtype=torch.float64).log()
    found = task_posterior(evidence, torch.tensor([0, 1, 1]))
    assert found[0].tolist() == pytest.approx([0.5, 0.5])
    assert found[1].tolist() == pytest.approx([0.64 / 0.68, 0.04 / 0.68])  # 0.8^2 and 0.2^2, to sum 1


def test_joint_probabilities_are_the_tasks_times_the_class_inside_it() -> None:
    tasks = torch.tensor([0])
    inside = torch.tensor([[0.9, 0.1, 0, 0, 0, 0]], dtype=torch.float64)
    posterior = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    scores = torch.zeros(1, 6)  # the generic model knows nothing: a third each in task 2
    found = joint_probabilities(scores, inside, tasks, posterior, TABLE)
    assert found[0].tolist() == pytest.approx([0.54, 0.06, 0.3, 0.1 / 3, 0.1 / 3, 0.1 / 3])


def shifted_heads(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return scores of two tasks, each 1 above the other on its own samples; task 1 responds 10 higher and wider."""
    generator = torch.Generator().manual_seed(seed)
    tasks = torch.arange(count) % 2
    scores = torch.randn(count, 2, generator=generator) * 0.3
    scores[torch.arange(count), tasks] += 1
    return scores * torch.tensor([1.0, 4.0]) + torch.tensor([0.0, 10.0]), tasks


def test_calibration_rescues_heads_on_different_scales() -> None:
    scores, tasks = shifted_heads(200, 0)
    calibration = fit_task_calibration(scores, tasks)
    fresh, truth = shifted_heads(1000, 1)
    raw = (fresh.argmax(1) == truth).double().mean().item()
    mended = (calibration(fresh).argmax(1) == truth).double().mean().item()
    assert raw == 0.5  # task 1 wins every time
    assert mended > 0.98


def test_calibration_leaves_comparable_heads_alone() -> None:
    generator = torch.Generator().manual_seed(2)
    tasks = torch.arange(300) % 3
    scores = torch.randn(300, 3, generator=generator)
    scores[torch.arange(300), tasks] += 2
    calibrated = fit_task_calibration(scores, tasks)(scores)
    agreement = (calibrated.argmax(1) == scores.argmax(1)).double().mean().item()
    assert agreement > 0.97
    assert torch.allclose(calibrated.exp().sum(1), torch.ones(300, dtype=torch.float64))


def test_every_task_weighs_the_same_in_the_calibration() -> None:
    scores, tasks = shifted_heads(60, 3)
    many = torch.cat([scores, *[scores[tasks == 0]] * 9])  # task 0 ten times as often
    labels = torch.cat([tasks, *[tasks[tasks == 0]] * 9])
    even, uneven = fit_task_calibration(scores, tasks), fit_task_calibration(many, labels)
    odds = [(calibrated[:, 0] - calibrated[:, 1]) for calibrated in (even(scores), uneven(scores))]
    assert (odds[0] - odds[1]).abs().max() < 0.3  # unweighted, ten to one would add log 10 = 2.3


def test_energy_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), 1.0, -1.0, -1.0, -1.0]])
    # T = 1: log(1 + 3), 1, -1 + log 3. T = 1/2: log(1 + 9) / 2, 1, -1 + log(3) / 2.
    assert energies(logits, TABLE, temperature=1.0)[0].tolist() == pytest.approx(
        [math.log(4), 1.0, math.log(3) - 1], abs=1e-6
    )
    assert energies(logits, TABLE, temperature=0.5)[0].tolist() == pytest.approx(
        [math.log(10) / 2, 1.0, math.log(3) / 2 - 1], abs=1e-6
    )


def test_max_logit_and_log_posterior_are_the_ends_of_the_family() -> None:
    largest = max_responses(LOGITS, TABLE).double()
    assert torch.equal(energies(LOGITS, TABLE, temperature=0.0), largest)
    assert torch.allclose(energies(LOGITS, TABLE, temperature=1e-3), largest, atol=2e-3)
    difference = energies(LOGITS, TABLE, temperature=1.0) - log_posteriors(LOGITS, TABLE)
    assert torch.allclose(difference, LOGITS.double().logsumexp(1, keepdim=True).expand(-1, 3), atol=1e-12)
    for continua in ([0, 1, 2], [0, 0, 0], [0, 1, 0]):
        energy, posterior = energies(LOGITS, TABLE, temperature=1.0), log_posteriors(LOGITS, TABLE)
        groups = torch.tensor(continua)
        assert torch.equal(predict_tasks(energy, groups), predict_tasks(posterior, groups))


def test_energy_of_enormous_logits_is_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 3e4, 0.0, 0.0, -3e4]])
    assert energies(logits, TABLE, temperature=0.01).tolist() == [[1e4, 3e4, pytest.approx(0.01 * math.log(2))]]


def test_robust_log_probabilities_by_hand() -> None:
    log_p = torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.25, 0.25]], dtype=torch.float64).log()
    expected = [[0.81 + 0.1 / 3, 0.09 + 0.1 / 3, 0.1 / 3], [0.45 + 0.1 / 3, 0.225 + 0.1 / 3, 0.225 + 0.1 / 3]]
    found = robust_log_probabilities(log_p, 0.1)
    assert torch.allclose(found.exp(), torch.tensor(expected, dtype=torch.float64))
    assert robust_log_probabilities(log_p, 0.0) is log_p


def test_one_wrong_sample_cannot_rule_out_a_task_in_a_robust_sum() -> None:
    p = torch.tensor([[0.9, 0.1]] * 3 + [[1e-6, 1 - 1e-6]], dtype=torch.float64).log()
    continuum = torch.zeros(4, dtype=torch.int64)
    assert predict_tasks(p, continuum).tolist() == [1]  # 3 log 9 < log 1e6
    assert predict_tasks(robust_log_probabilities(p, 0.1), continuum).tolist() == [0]  # 3 log(.86/.14) > log(.95/.05)
