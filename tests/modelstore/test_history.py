"""The history of a model does not grow with the square of its tasks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from itaml.modelstore.checksummed_json import FORMAT, add_checksum, checksum_of, verify_checksum
from itaml.modelstore.history import MAX_SCORES, accuracy_of, mean_accuracy, with_learn
from itaml.modelstore.manifest import LearnRecord, TaskScore
from modelstore_support import digits_of, tiny_model


def record(tasks: int, *, after: float | None = 0.5) -> LearnRecord:
    scores = tuple(TaskScore(task=task, images=2, before=None, after=after) for task in range(tasks))
    return LearnRecord(
        date="2026-01-01T00:00:00+00:00",
        new=("a",),
        known=(),
        images={"a": 1},
        skipped=0,
        epochs=1,
        seconds=0.1,
        validation_images=1,
        validation=1.0,
        tasks=scores,
    )


def test_the_accuracies_of_single_tasks_are_kept_for_the_latest_learns_alone() -> None:
    learns: tuple[LearnRecord, ...] = ()
    for tasks in range(1, 101):
        learns = with_learn(learns, record(tasks))
    kept = [len(learn.tasks) for learn in learns]
    assert kept == [0] * 97 + [98, 99, 100]
    assert sum(kept[:-1]) <= MAX_SCORES
    assert [accuracy_of(learn) for learn in learns] == [0.5] * 100


def test_a_model_of_few_tasks_keeps_them_all() -> None:
    learns: tuple[LearnRecord, ...] = ()
    for _ in range(60):
        learns = with_learn(learns, record(3))
    assert all(len(learn.tasks) == 3 for learn in learns)


def test_the_mean_counts_images_and_not_tasks() -> None:
    scores = [
        TaskScore(task=0, images=9, before=None, after=1.0),
        TaskScore(task=1, images=1, before=None, after=0.0),
        TaskScore(task=2, images=5, before=None, after=None),
    ]
    assert mean_accuracy(scores) == pytest.approx(0.9)
    assert mean_accuracy([]) is None
    assert accuracy_of(record(2, after=None)) is None


def test_the_accuracy_of_all_tasks_is_in_the_record_of_a_learn(tmp_path: Path) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(*digits_of((0, 1)))
    report = classifier.learn(*digits_of((2,)))
    saved = json.loads((tmp_path / "model/versions/000002/model.json").read_text())["learns"][-1]
    assert saved["accuracy"] == report.record.accuracy == mean_accuracy(report.record.tasks)
    assert classifier.info()["learns"][-1]["accuracy"] == saved["accuracy"]


@pytest.mark.parametrize("body", [{"version": 1, "record": None}, {"name": "é\n}\n", "learns": [{"new": ["a"]}]}])
def test_the_checksum_is_the_last_line_of_a_record_and_covers_all_before_it(body: dict[str, Any]) -> None:
    data = add_checksum("model", body)
    value = json.loads(data)
    checksum = value.pop("checksum")
    lines = {"itaml": "model", "format": FORMAT, **body}.items()
    shown = [f' "{key}": {json.dumps(item, ensure_ascii=False, separators=(",", ":"))}' for key, item in lines]
    text = "{\n" + ",\n".join(shown) + "\n}\n"
    assert list(value) == ["itaml", "format", *body]
    assert checksum == hashlib.sha256(text.encode()).hexdigest() == checksum_of(data)
    assert verify_checksum(Path("model.json"), data, kind="model").body == body
