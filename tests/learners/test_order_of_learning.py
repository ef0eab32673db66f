"""The same images in another order, or in other tasks, give the same model: weights, probabilities and thresholds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from itaml.config import Compute, Seeds, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.learners import LEARNERS
from itaml.learners.api import Prediction
from itaml.learners.statistics_learner import StatisticsLearner

EXACT = ("lda", "ranpac", "ncm")
SHAPE = (1, 4, 6)
CLASSES, EACH = 8, 15


def learner_of(name: str, **settings: Any) -> StatisticsLearner:
    kind = LEARNERS.load(name)
    values = {"memory": 60} | ({"width": 40, "penalty": 1.0} if name == "ranpac" else {}) | settings
    compute = Compute(device="cpu", precision="fp32")
    learner = kind.from_settings(build(kind.Settings, values), shape=SHAPE, seeds=Seeds.of(0), compute=compute)
    assert isinstance(learner, StatisticsLearner)
    return learner


def samples(class_id: int, count: int, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(100 * seed + class_id)
    center = torch.randint(0, 120, (1, *SHAPE), generator=torch.Generator().manual_seed(class_id))
    return (center + torch.randint(0, 130, (count, *SHAPE), generator=generator)).to(torch.uint8)


def learned(name: str, tasks: list[list[int]], *, seed: int = 0) -> StatisticsLearner:
    learner = learner_of(name)
    generator = torch.Generator().manual_seed(seed)
    for index, classes in enumerate(tasks):
        images = torch.cat([samples(c, EACH) for c in classes])
        labels = torch.tensor(classes).repeat_interleave(EACH)
        order = torch.randperm(len(labels), generator=generator)
        learner.learn(Task(index, tuple(classes), ImageSet.from_arrays(images[order], labels[order])))
    return learner


def by_class(prediction: Prediction) -> Tensor:
    return prediction.probabilities[:, torch.tensor(prediction.columns).argsort()]


def assert_same(first: StatisticsLearner, second: StatisticsLearner) -> None:
    images = torch.cat([samples(c, 6, seed=1) for c in range(CLASSES + 3)])
    alone = torch.arange(len(images))
    one, other = first.predict(images, alone), second.predict(images, alone)
    assert torch.equal(one.classes, other.classes)
    torch.testing.assert_close(by_class(one), by_class(other))
    torch.testing.assert_close(first.unknown_scores(images), second.unknown_scores(images))
    assert first.unknown_threshold == pytest.approx(second.unknown_threshold)
    assert first.fit.temperature == pytest.approx(second.fit.temperature)


@pytest.mark.parametrize("name", EXACT)
def test_other_orders_and_other_tasks_give_the_same_model(name: str) -> None:
    whole = learned(name, [list(range(CLASSES))])
    assert len(whole.memory) == 56 < CLASSES * EACH, "some images are not exemplars"
    assert_same(whole, learned(name, [[6, 1], [3, 0, 7], [2, 5, 4]], seed=1))
    assert_same(whole, learned(name, [[c] for c in (4, 7, 2, 0, 5, 1, 3, 6)], seed=2))


@pytest.mark.parametrize("name", EXACT)
def test_images_of_a_class_may_come_in_several_learns(name: str) -> None:
    whole = learned(name, [[0, 1, 2, 3]])
    learner = learner_of(name)
    for number, positions in enumerate((torch.arange(0, EACH, 2), torch.arange(1, EACH, 2))):
        classes = (3, 1, 0, 2)
        images = torch.cat([samples(c, EACH)[positions] for c in classes])
        labels = torch.tensor(classes).repeat_interleave(len(positions))
        learner.learn(Task(number, classes if number == 0 else (), ImageSet.from_arrays(images, labels)))
    assert_same(whole, learner)


@pytest.mark.parametrize("name", EXACT)
def test_a_class_that_is_forgotten_and_learned_again_leaves_no_trace(name: str) -> None:
    tasks = [[0, 1], [2, 3]]
    whole, learner = learned(name, tasks), learned(name, tasks)  # all images are exemplars: forgetting is exact
    assert len(whole.memory) == 4 * EACH
    learner.forget_class(1)
    images = ImageSet.from_arrays(samples(1, EACH), [1] * EACH)
    learner.learn(Task(len(learner.task_map), (1,), images))
    assert_same(whole, learner)
