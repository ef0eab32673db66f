"""The sentence under a table at equal effort: who wins by more than the standard deviations."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = import_module("effort_tables")
    monkeypatch.setattr(module, "_values", lambda results, metric: results)  # per cent instead of results
    return module


def test_a_lead_above_both_standard_deviations_wins_and_upper_bounds_do_not_count(tables: Any) -> None:
    found = {"joint:best": [99.0, 99.0], "a:best": [90.0, 91.0], "b:paper": [88.0, 89.0]}
    said = tables._winner(found, "class@1")
    assert said == "class@1: `a` wins by more than the standard deviations, 2.00 points before `b:paper`."


def test_a_lead_within_a_standard_deviation_does_not_win(tables: Any) -> None:
    found = {"a:best": [90.0, 91.0], "b:best": [88.0, 92.0], "c:best": [10.0, 11.0]}
    said = tables._winner(found, "class@1")
    assert said.startswith("class@1: `a` has the highest mean; `b` is within the standard deviations of it, all others")


def test_single_seeds_are_said_to_be_single(tables: Any) -> None:
    said = tables._winner({"a:best": [90.0], "b:best": [80.0, 81.0]}, "class@1")
    assert said.endswith(" before `b` (of `a` there is one seed, whose spread is not known).")


def test_nobody_wins_where_every_method_has_one_seed(tables: Any) -> None:
    said = tables._winner({"joint:best": [99.0], "a:best": [80.0], "b:best": [90.0]}, "class@1")
    assert said == "class@1: `b` has the highest value, of one seed each, so that the spread is not known."


def test_runs_that_failed_are_named_with_the_reason(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("equal_effort")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "digits-plain").mkdir()
    for seed in (1, 0):
        module.keep_failure(
            tmp_path / "digits-plain" / "failures.json", "a:best", seed, "the loss became nan in task 2: lower lr"
        )
    said = tables._failed(tables.failures("digits", "plain", finished={}))
    assert said == "Failed: `a` (seed 0: the loss became nan in task 2), `a` (seed 1: the loss became nan in task 2)."
    left = tables.failures("digits", "plain", finished={"a:best": [0]})
    assert left == {"a:best": {"1": "the loss became nan in task 2: lower lr"}}
    assert tables.failures("digits", "plain", finished={"a:best": [0, 1]}) == {}
    assert tables.failures("digits", "strong", finished={}) == {}
