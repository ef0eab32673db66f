"""Who is best and by how much, with numbers worked by hand."""

from __future__ import annotations

import pytest

from handmade import handmade
from itaml.experiment.result import Result
from itaml.report.ranking import finding, lower_bound, rank, remarks
from itaml.report.summary import Group, group


def _groups(**accuracies: tuple[float, ...]) -> list[Group]:
    """Return methods with the class accuracy of each seed at p = 1; at p = 20 it is a tenth more."""
    return group(
        [
            Result.model_validate(handmade(method=method, seed=seed, last=last))
            for method, values in accuracies.items()
            for seed, last in enumerate(values)
        ]
    )


def _finding(p: int = 1, **accuracies: tuple[float, ...]) -> str:
    return finding(rank(_groups(**accuracies)), p).replace("\N{NO-BREAK SPACE}", " ")


def test_a_lead_of_more_than_the_larger_std_wins() -> None:
    said = _finding(replay=(0.70, 0.72), itaml=(0.80, 0.84), finetune=(0.6, 0.6))
    assert said == (
        "At p = 1, itaml reaches 82.00 ± 2.83 % class accuracy after the last task (mean ± std of 2 seeds), "
        "11.00 points above replay (71.00 ± 1.41 %): a lead of more than one standard deviation of either."
    )


def test_a_smaller_lead_has_no_winner_and_names_who_is_close() -> None:
    said = _finding(itaml=(0.80, 0.84), replay=(0.79, 0.83), bic=(0.80, 0.80), gem=(0.7, 0.7))
    assert said.endswith(
        "1.00 points above replay (81.00 ± 2.83 %): no clear winner, "
        "because replay and bic are within one standard deviation."
    )


def test_equal_means_are_level() -> None:
    assert ", level with replay (81.00 ± 1.41 %): no clear winner" in _finding(itaml=(0.80, 0.82), replay=(0.82, 0.80))


def test_one_seed_says_that_its_uncertainty_is_not_known() -> None:
    said = _finding(20, itaml=(0.8,), replay=(0.7,))
    assert said == (
        "At p = 20, itaml reaches 90.00 % class accuracy after the last task (1 seed), 10.00 points above replay "
        "(80.00 %); one seed gives no standard deviation, so the order may be chance."
    )


def test_one_method_alone_is_not_compared() -> None:
    assert _finding(itaml=(0.8,)).endswith("(1 seed); there is no other method to compare it with.")


def test_upper_bounds_and_methods_that_know_one_task_do_not_compete() -> None:
    ranking = rank(_groups(finetune=(0.5, 0.51), replay=(0.7, 0.7), joint=(0.95, 0.95), itaml=(0.8, 0.8)))
    assert [one.label for one in ranking.competing] == ["itaml", "replay"]
    assert [one.label for one in ranking.groups] == ["itaml", "replay", "joint", "finetune"]
    assert [line.replace("\N{NO-BREAK SPACE}", " ") for line in remarks(ranking)] == [
        "Not ranked, upper bound: joint (trains on the data of all tasks).",
        "Not ranked, at chance level: finetune (no better than knowing a single task, 50.0 %).",
    ]
    assert finding(ranking, 1).startswith("At p = 1, itaml reaches 80.00 ± 0.00")


def test_the_lower_bound_is_the_largest_task_or_a_guess() -> None:
    (one,) = _groups(itaml=(0.9,))
    assert lower_bound(one) == 0.5
    tasks = [one.first.tasks[0].model_copy(update={"classes": list("abc")}), one.first.tasks[1]]
    uneven = Group("itaml", (one.first.model_copy(update={"tasks": tasks}),))
    assert lower_bound(uneven) == pytest.approx(3 / 5)
    alone = Group("itaml", (one.first.model_copy(update={"tasks": tasks[:1]}),))
    assert lower_bound(alone) == pytest.approx(1 / 3)


def test_no_method_that_learned_gives_no_winner() -> None:
    assert _finding(finetune=(0.5,)) == "At p = 1 no method is better than one that knows a single task."
