"""The same seed repeats a run to the bit; every seed changes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiment_support import checkpoint, numbers, short
from itaml.config import Seeds
from itaml.experiment.runner import run_experiment
from support import same_bits

pytestmark = pytest.mark.usefixtures("small_benchmarks")

# Settings under which every seed has something to decide.
SETTINGS: dict[str, Any] = {
    "augment": "shift",
    "adapt_steps": 3,
    "adapt_batch": 2,
    "adapt_lr": 0.5,
    "adapt_guard": False,
    "seeds__order": 1,
}


def run(folder: Path, **overrides: Any) -> tuple[Any, Any]:
    """Return the final checkpoint's learner and the result's numbers, configuration apart."""
    result = numbers(run_experiment(short(**SETTINGS | overrides), folder))
    del result["config"]
    return checkpoint(folder)["learner"], result


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"engine": "loop"},
        {"optimizer": "radam", "lr": 0.01},
        {"task_score": "calibrated"},
        {"sampling": "balanced"},
    ],
    ids=str,
)
def test_the_same_seed_repeats_a_run_to_the_bit(tmp_path: Path, overrides: dict[str, Any]) -> None:
    first, second = (run(tmp_path / name, **overrides) for name in ("a", "b"))
    assert same_bits(first[0], second[0])
    assert first[1] == second[1]


def test_the_same_seed_repeats_a_network_with_batch_norm(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_experiment(short("small8", epochs=1), tmp_path / name)
    assert same_bits(checkpoint(tmp_path / "a"), checkpoint(tmp_path / "b"))


@pytest.mark.parametrize("name", Seeds.model_fields)
def test_every_seed_changes_the_run(tmp_path: Path, name: str) -> None:
    before, after = run(tmp_path / "a"), run(tmp_path / "b", **{f"seeds__{name}": 12})
    same_weights = same_bits(before[0], after[0])
    if name in ("adapt", "continua"):  # these decide nothing in training, and something in the numbers
        assert same_weights
        assert before[1] != after[1]
    else:
        assert not same_weights


def test_the_memory_seed_decides_which_exemplars_are_kept_and_not_how_many(tmp_path: Path) -> None:
    before, after = (run(tmp_path / name, seeds__memory=int(name))[0]["memory"] for name in ("0", "1"))
    assert before["classes"] == after["classes"]
    shapes = [{c: p.shape for c, p in memory["images"].items()} for memory in (before, after)]
    assert shapes[0] == shapes[1]
    assert not same_bits(before["images"], after["images"])


def test_the_order_seed_decides_which_classes_are_together(tmp_path: Path) -> None:
    found = {}
    for seed in (None, 1, 2, 3):
        result = run(tmp_path / str(seed), seeds__order=seed)[1]
        found[seed] = [row["classes"] for row in result["tasks"]]
        assert sorted(name for classes in found[seed] for name in classes) == [f"class {c}" for c in range(4)]
    assert found[None] == [["class 0", "class 1"], ["class 2", "class 3"]]
    assert len({str(classes) for classes in found.values()}) > 2


def test_the_root_seed_changes_everything_but_the_order(tmp_path: Path) -> None:
    results = [run_experiment(short(seed=seed), tmp_path / str(seed)) for seed in (0, 1)]
    assert [row.classes for row in results[0].tasks] == [row.classes for row in results[1].tasks]
    assert not same_bits(checkpoint(tmp_path / "0")["learner"]["model"], checkpoint(tmp_path / "1")["learner"]["model"])
