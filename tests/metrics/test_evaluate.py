"""Evaluation in one pass against a slow reference that only calls `predict`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from itaml import seeding
from itaml.data.continuum import continuum_ids
from itaml.data.stream import Task, TaskStream
from itaml.errors import SettingsError
from itaml.learners.api import Prediction, Scoring
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from itaml.storage import State
from support import fresh_itaml, synthetic_stream

STREAM = synthetic_stream((2, 3, 2), train=12, test=11)


def trained(**settings: Any) -> GradientLearner:
    learner = fresh_itaml(
        **{"epochs": 3, "lr": 0.05, "adapt_steps": 4, "adapt_lr": 0.3, "adapt_guard": False} | settings
    )
    for task in STREAM:
        learner.learn(task)
    return learner


class OnlyPredicts:
    """A learner with nothing but the contract."""

    def __init__(self, learner: GradientLearner, *, names_tasks: bool = True) -> None:
        self.learner, self.names_tasks = learner, names_tasks
        self.sizes: list[int] = []

    def learn(self, task: Task) -> None:
        raise NotImplementedError

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        assert continua is not None
        self.sizes.extend(torch.bincount(continua).tolist())
        found = self.learner.predict(images, continua)
        return Prediction(found.classes, found.tasks if self.names_tasks else None, found.probabilities, found.columns)

    def state_dict(self) -> State:
        raise NotImplementedError

    def load_state_dict(self, state: State) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("task_score", ["max-logit", "log-posterior", "calibrated"])
@pytest.mark.parametrize("scope", ["head", "all"])
def test_one_pass_equals_predicting_every_continuum(task_score: str, scope: str) -> None:
    learner = trained(task_score=task_score, adapt_scope=scope)
    assert isinstance(learner, Scoring)
    continuum_sizes = (1, 4, 20)
    fast = evaluate(learner, STREAM, seen=3, continuum_sizes=continuum_sizes, seed=5)
    labels_of = [STREAM.test(task).load() for task in range(3)]
    images = torch.cat([part[0] for part in labels_of])
    labels = torch.cat([part[1] for part in labels_of])
    tasks = torch.tensor([next(t for t in range(3) if int(c) in STREAM.splits[t]) for c in labels])
    for p in continuum_sizes:
        continua = continuum_ids(tasks, p, generator=seeding.generator(5, "continua", p))
        class_hits, task_hits = torch.zeros(len(labels)), torch.zeros(len(labels))
        for number in range(int(continua.max()) + 1):
            rows = (continua == number).nonzero().flatten()
            prediction = learner.predict(images[rows])
            class_hits[rows] = (prediction.classes == labels[rows]).float()
            assert prediction.tasks is not None
            task_hits[rows] = (prediction.tasks == tasks[rows]).float()
        assert fast.at[p].classes == pytest.approx(class_hits.mean().item(), abs=1e-6)
        assert fast.at[p].tasks == pytest.approx(task_hits.mean().item(), abs=1e-6)
        assert fast.at[p].by_task == pytest.approx([class_hits[tasks == t].mean().item() for t in range(3)], abs=1e-6)
        if p == 1:
            by_class = {int(c): class_hits[labels == c].mean().item() for c in range(7)}
            assert fast.by_class == pytest.approx(by_class, abs=1e-6)
    assert 0.2 < fast.at[1].classes < 1.0  # neither all wrong nor all right, or this shows nothing
    confusion = fast.task_confusion
    assert confusion is not None
    assert [sum(row) for row in confusion] == [22, 33, 22]
    assert sum(confusion[t][t] for t in range(3)) / 77 == pytest.approx(fast.at[1].tasks)


def test_learners_that_only_predict_get_the_same_numbers() -> None:
    learner = trained()
    fast, slow = (
        evaluate(one, STREAM, seen=3, continuum_sizes=(1, 4), seed=5) for one in (learner, OnlyPredicts(learner))
    )
    for p in (1, 4):
        assert slow.at[p].classes == pytest.approx(fast.at[p].classes)
        assert slow.at[p].tasks == pytest.approx(fast.at[p].tasks)
        assert slow.at[p].by_task == pytest.approx(fast.at[p].by_task)
    assert slow.by_class == pytest.approx(fast.by_class)
    assert slow.task_aware is None
    assert slow.no_update is None
    assert slow.task_confusion is None
    silent = evaluate(OnlyPredicts(learner, names_tasks=False), STREAM, seen=3, continuum_sizes=(4,), seed=5)
    assert silent.at[4].tasks is None
    assert silent.at[4].classes == fast.at[4].classes


def test_task_aware_and_no_update_by_their_definitions() -> None:
    learner = trained()
    found = evaluate(learner, STREAM, seen=3, continuum_sizes=(1,), seed=0)
    aware, plain = [], []
    for task in range(3):
        images, labels = STREAM.test(task).load()
        scores = learner.class_scores(images)
        plain.append(learner.task_map.class_tensor[scores.argmax(1)] == labels)
        own = learner.task_map.class_tensor[learner.task_map.columns(task)]
        aware.append(own[learner.adapted_scores(images, scores, task).argmax(1)] == labels)
    assert found.task_aware == pytest.approx(torch.cat(aware).double().mean().item())
    assert found.no_update == pytest.approx(torch.cat(plain).double().mean().item())
    assert found.task_aware is not None
    assert found.task_aware > found.at[1].classes


def test_only_the_tasks_seen_are_evaluated() -> None:
    learner = fresh_itaml(epochs=1)
    learner.learn(STREAM[0])
    found = evaluate(learner, STREAM, seen=1, continuum_sizes=(1, 20), seed=0)
    assert found.at[1].by_task == [found.at[1].classes]
    assert found.at[20].tasks == 1.0
    assert set(found.by_class) == {0, 1}


@pytest.mark.parametrize("p", [1, 2, 3, 7, 22, 100])
def test_every_sample_is_in_exactly_one_continuum_of_its_task_the_last_one_shorter(p: int) -> None:
    tasks = torch.tensor([0] * 22 + [1] * 7 + [2] * 1)[torch.randperm(30, generator=seeding.generator(0))]
    ids = continuum_ids(tasks, p, generator=seeding.generator(1))
    assert ids.shape == tasks.shape
    assert sorted(set(ids.tolist())) == list(range(int(ids.max()) + 1))
    sizes: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for number, size in Counter(ids.tolist()).items():
        owners = set(tasks[ids == number].tolist())
        assert len(owners) == 1
        sizes[owners.pop()].append(size)
    for task, count in enumerate((22, 7, 1)):
        rest = [count % p] if count % p else []
        assert sorted(sizes[task]) == sorted([p] * (count // p) + rest)


def test_evaluation_shows_the_learner_every_sample_once() -> None:
    probe = OnlyPredicts(trained())
    evaluate(probe, STREAM, seen=3, continuum_sizes=(5,), seed=0)
    assert Counter(probe.sizes) == Counter([5] * 4 + [2] + [5] * 6 + [3] + [5] * 4 + [2])


def test_the_seed_decides_which_samples_are_together() -> None:
    tasks = torch.zeros(50, dtype=torch.int64)
    draws = [continuum_ids(tasks, 5, generator=seeding.generator(seed)).tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("p", [0, -1])
def test_a_continuum_of_none_is_refused(p: int) -> None:
    with pytest.raises(SettingsError, match=rf"p must be >= 1 \(got {p}\)"):
        continuum_ids(torch.zeros(3, dtype=torch.int64), p, generator=seeding.generator(0))


def test_a_stream_is_not_changed_by_evaluation() -> None:
    before = STREAM.dataset.test.load()[0].clone()
    evaluate(trained(), STREAM, seen=3, continuum_sizes=(3,), seed=0)
    assert torch.equal(STREAM.dataset.test.load()[0], before)
    assert isinstance(STREAM[:2], TaskStream)
