"""Algorithm 4 against brute force, and by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy.stats import binom

from itaml.errors import BoundError, SettingsError
from itaml.inference.bound import continuum_size, minimum_accuracy, own_task_probability, task_accuracy


def brute_force(n: int, accuracy: float, classes: int, tasks: int) -> float:
    """Return the paper's sum, term by term."""
    own = accuracy + (1 - accuracy) * (classes - 1) / (classes * tasks - 1)
    return math.fsum(math.comb(n, k) * own**k * (1 - own) ** (n - k) for k in range(round(n / tasks) + 1, n + 1))


GRID = list(itertools.product([0.0, 0.1, 0.35, 0.6, 0.9, 1.0], [2, 5, 10], [2, 3, 4, 10]))


@pytest.mark.parametrize(("accuracy", "classes", "tasks"), GRID)
def test_task_accuracy_equals_the_sum(accuracy: float, classes: int, tasks: int) -> None:
    for n in [*range(1, 30), 50, 99, 100, 250]:
        found = task_accuracy(n, accuracy=accuracy, sizes=[classes] * tasks)
        assert found == pytest.approx(brute_force(n, accuracy, classes, tasks), abs=1e-11)


@pytest.mark.parametrize(("accuracy", "classes", "tasks"), [case for case in GRID if case[0] >= 0.35])
@pytest.mark.parametrize("gamma", [0.5, 0.95, 0.999])
def test_continuum_size_is_the_smallest_n(accuracy: float, classes: int, tasks: int, gamma: float) -> None:
    expected = next(n for n in range(1, 2000) if brute_force(n, accuracy, classes, tasks) > gamma)
    assert continuum_size(accuracy=accuracy, sizes=[classes] * tasks, gamma=gamma) == expected


def test_hand_value() -> None:
    # Two tasks of two classes, P0 = 0.7: P0_hat = 0.7 + 0.3 * 1/3 = 0.8. With n = 3, round(1.5) = 2 and all three
    # must be right: 0.8^3. With n = 1, round(0.5) = 0 and one must be: 0.8.
    sizes = [2, 2]
    assert own_task_probability(0.7, sizes) == pytest.approx(0.8)
    assert task_accuracy(3, accuracy=0.7, sizes=sizes) == pytest.approx(0.512)
    assert task_accuracy(1, accuracy=0.7, sizes=sizes) == pytest.approx(0.8)
    assert continuum_size(accuracy=0.7, sizes=sizes, gamma=0.79) == 1
    # n = 2: round(1.0) = 1, both must be right, 0.64. n = 5: round(2.5) = 2, three or more of five, 0.94208.
    assert task_accuracy(5, accuracy=0.7, sizes=sizes) == pytest.approx(0.94208)
    assert continuum_size(accuracy=0.7, sizes=sizes, gamma=0.9) == 5


def test_round_is_pythons_halves_to_even() -> None:
    # n/t = 2.5 rounds to 2 and 3.5 to 4: need 3 of 5, but 5 of 7.
    for n, need in [(5, 3), (7, 5), (9, 5), (11, 7)]:
        expected = binom.sf(need - 1, n, own_task_probability(0.7, [2, 2]))
        assert task_accuracy(n, accuracy=0.7, sizes=[2, 2]) == pytest.approx(float(expected), rel=1e-12)


def test_monotone_in_gamma_and_in_accuracy() -> None:
    by_gamma = [continuum_size(accuracy=0.6, sizes=[10] * 10, gamma=g / 100) for g in range(1, 100)]
    assert by_gamma == sorted(by_gamma)
    assert by_gamma[0] < by_gamma[-1]
    found = [task_accuracy(20, accuracy=a / 50, sizes=[10] * 10) for a in range(51)]
    assert found == sorted(found)


def test_unreachable_is_an_error_that_says_so() -> None:
    with pytest.raises(BoundError, match=r"no continuum of up to 1,000,000 samples reaches a task accuracy of 0\.95"):
        continuum_size(accuracy=0.0, sizes=[1] * 10, gamma=0.95)
    with pytest.raises(BoundError, match=r"0\.091 of samples, chance gives it 0\.100"):
        continuum_size(accuracy=0.0, sizes=[10] * 10, gamma=0.5)


def test_uneven_tasks_are_about_the_smallest() -> None:
    # Sizes 4, 3, 2, 1: P0_hat = P0 + (1 - P0) (u - 1)/9, least for the task of one class.
    assert own_task_probability(0.6, [4, 3, 2, 1]) == pytest.approx(0.6)
    assert own_task_probability(0.6, [4, 4, 2]) == pytest.approx(0.6 + 0.4 / 9)
    expected = math.fsum(math.comb(10, k) * 0.6**k * 0.4 ** (10 - k) for k in range(round(10 / 4) + 1, 11))
    assert task_accuracy(10, accuracy=0.6, sizes=[4, 3, 2, 1]) == pytest.approx(expected)
    sizes, n = [5, 2, 3], 8
    assert task_accuracy(n, accuracy=0.5, sizes=sizes) == task_accuracy(n, accuracy=0.5, sizes=sorted(sizes))


def test_a_single_task_is_always_found() -> None:
    assert task_accuracy(1, accuracy=0.0, sizes=[5]) == 1.0
    assert continuum_size(accuracy=0.0, sizes=[5], gamma=0.99) == 1
    assert own_task_probability(0.0, [1]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"accuracy": 1.2, "sizes": [2, 2], "gamma": 0.9}, r"between 0 and 1 \(got 1\.2"),
        ({"accuracy": float("nan"), "sizes": [2, 2], "gamma": 0.9}, r"between 0 and 1 \(got nan"),
        ({"accuracy": 0.5, "sizes": [], "gamma": 0.9}, "there must be tasks"),
        ({"accuracy": 0.5, "sizes": [2, 0], "gamma": 0.9}, r"not \[2, 0\]"),
        ({"accuracy": 0.5, "sizes": [2, 2], "gamma": 1.0}, r"gamma must be > 0 and < 1 \(got 1\.0"),
        ({"accuracy": 0.5, "sizes": [2, 2], "gamma": 0.0}, r"gamma must be > 0 and < 1 \(got 0\.0"),
    ],
)
def test_impossible_requests(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        continuum_size(**arguments)  # type: ignore[arg-type]


def test_a_continuum_of_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"n must be >= 1 \(got 0\)"):
        task_accuracy(0, accuracy=0.5, sizes=[2, 2])


AUTHORS_CIFAR = [0.891, 0.752, 0.680, 0.583, 0.528, 0.473, 0.415, 0.387, 0.356, 0.337]  # their log, p = 1, per task


def test_the_papers_17_samples_need_floor_and_the_authors_p0() -> None:
    accuracy = minimum_accuracy(AUTHORS_CIFAR)
    assert accuracy == pytest.approx(0.5402 - (1 - 1 / math.e) * 0.554)
    assert continuum_size(accuracy=accuracy, sizes=[10] * 10, gamma=0.95, rounding="floor") == 17
    assert continuum_size(accuracy=accuracy, sizes=[10] * 10, gamma=0.95) == 22


def test_22_samples_with_round_against_a_sum_of_binomial_probabilities() -> None:
    own = own_task_probability(minimum_accuracy(AUTHORS_CIFAR), [10] * 10)
    assert own == pytest.approx(0.26364, abs=1e-5)

    def found(n: int, least: int, p: float = own) -> float:
        return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1))

    assert found(21, 3) < 0.95 < found(22, 3)  # round(21/10) = round(22/10) = 2
    assert found(22, 3, 0.2594) < 0.95 < found(22, 3, 0.2595)  # below this probability 23 samples are needed
    assert found(16, 2) < 0.95 < found(17, 2)  # floor: 1
    assert found(20, 3) < 0.95  # floor(20/10) = 2: more samples, and a smaller probability
    assert all(found(n, n // 10 + 1) > 0.95 for n in range(22, 60))


def test_floor_by_hand() -> None:
    # P0_hat = 0.8. With n = 3, floor(1.5) = 1 and two or more of three must be right: 3 * 0.64 * 0.2 + 0.512.
    assert task_accuracy(3, accuracy=0.7, sizes=[2, 2], rounding="floor") == pytest.approx(0.896)
    assert task_accuracy(3, accuracy=0.7, sizes=[2, 2], rounding="round") == pytest.approx(0.512)
    assert continuum_size(accuracy=0.7, sizes=[2, 2], gamma=0.85, rounding="floor") == 3


def test_minimum_accuracy_is_the_mean_of_equal_values_and_never_negative() -> None:
    assert minimum_accuracy([0.6, 0.6]) == pytest.approx(0.6)
    assert minimum_accuracy([1.0, 0.0, 0.0]) == 0.0
    with pytest.raises(SettingsError, match="at least one task"):
        minimum_accuracy([])
    with pytest.raises(SettingsError, match=r"got 1\.2"):
        minimum_accuracy([0.5, 1.2])


def test_unknown_rounding_is_named() -> None:
    with pytest.raises(SettingsError, match="got 'ceil'"):
        task_accuracy(3, accuracy=0.7, sizes=[2, 2], rounding="ceil")  # type: ignore[arg-type]
