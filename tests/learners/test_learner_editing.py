"""Forgetting and merging classes and removing images: exact for learners of sums, row by row for trained heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from itaml.config import Compute, Seeds, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import DataError, SettingsError
from itaml.learners import LEARNERS
from itaml.learners.api import Editable
from support import SHAPE, synthetic_stream

CPU = Compute(device="cpu", precision="fp32")
EXACT = ("lda", "ranpac", "ncm")
STREAM = synthetic_stream((2, 2, 1))
TEST = STREAM.dataset.test.load()


def learner_of(name: str, **settings: Any) -> Any:
    kind = LEARNERS.load(name)
    values = {"memory": 50} | ({"width": 40, "penalty": 1.0} if name == "ranpac" else {}) | settings
    return kind.from_settings(build(kind.Settings, values), shape=SHAPE, seeds=Seeds.of(0), compute=CPU)


def trained(name: str, *, without: int | None = None, **settings: Any) -> Any:
    learner = learner_of(name, **settings)
    for task in STREAM:
        classes = tuple(c for c in task.classes if c != without)
        if classes:
            learner.learn(Task(len(learner.task_map), classes, task.train.of_classes(list(classes))))
    return learner


def columns_without(learner: Any, scores: Tensor, class_id: int) -> Tensor:
    """Return the scores of the other classes."""
    return scores[:, [n for n, c in enumerate(learner.task_map.classes) if c != class_id]]


@pytest.mark.parametrize("name", EXACT)
def test_a_class_whose_images_are_all_kept_is_forgotten_as_if_it_had_never_come(name: str) -> None:
    learner, never = trained(name), trained(name, without=2)
    learner.forget_class(2)
    assert learner.task_map == never.task_map
    assert torch.equal(learner.statistics.counts, never.statistics.counts)
    torch.testing.assert_close(learner.class_scores(TEST[0]), never.class_scores(TEST[0]), rtol=1e-4, atol=1e-4)


def test_the_other_scores_stay_if_the_images_are_not_kept() -> None:
    learner = trained("lda", memory=0, shrinkage=0.3)
    before = columns_without(learner, learner.class_scores(TEST[0]), 4)
    learner.forget_class(4)
    after = learner.class_scores(TEST[0])
    torch.testing.assert_close(after.diff(), before.diff(), rtol=1e-4, atol=1e-4)
    assert learner.task_map.tasks == ((0, 1), (2, 3))


def test_a_trained_head_loses_one_row_and_the_others_stay_to_the_bit() -> None:
    learner = trained("itaml", epochs=2, backbone="mlp", horizon=3)
    before = columns_without(learner, learner.class_scores(TEST[0]), 4)
    learner.forget_class(4)
    assert torch.equal(learner.class_scores(TEST[0]), before)
    assert learner.task_map.tasks == ((0, 1), (2, 3))
    assert learner.memory.classes == (0, 1, 2, 3)
    assert int(learner.predict(TEST[0]).classes.max()) <= 3
    learner.learn(Task(2, (4,), STREAM[2].train))
    assert learner.task_map.tasks == ((0, 1), (2, 3), (4,))


@pytest.mark.parametrize("name", EXACT)
def test_merged_classes_are_one_class_learned_at_once(name: str) -> None:
    merged, once = trained(name), learner_of(name)
    merged.merge_classes(1, 0)
    train = STREAM.dataset.train
    labels = torch.where(train.labels == 1, 0, train.labels)
    once.learn(Task(0, (0, 2, 3, 4), ImageSet.from_arrays(train.load()[0], labels)))
    assert merged.task_map.tasks == ((0,), (2, 3), (4,))
    torch.testing.assert_close(merged.statistics.sums, once.statistics.sums)
    assert merged.memory.count(0) == 12  # of 20; the share of each of four classes is 50 // 4


def test_a_trained_head_learns_the_merged_class_from_both() -> None:
    learner = trained("itaml", epochs=20, backbone="mlp", horizon=3)
    learner.merge_classes(2, 0)
    assert learner.task_map.tasks == ((0, 1), (3,), (4,))
    images = TEST[0][(TEST[1] == 0) | (TEST[1] == 2)]
    found = learner.predict(images, torch.arange(len(images))).classes
    assert float((found == 0).float().mean()) > 0.8


@pytest.mark.parametrize("name", EXACT)
def test_removed_images_leave_no_trace(name: str) -> None:
    learner, less = trained(name), learner_of(name)
    train, labels = STREAM.dataset.train.load()
    gone = torch.tensor([0, 1, 25])
    learner.remove_images(train[gone], labels[gone])
    rest = torch.ones(len(labels), dtype=torch.bool).index_fill(0, gone, value=False)
    for task in STREAM:
        members = rest & torch.isin(labels, torch.tensor(task.classes))
        less.learn(Task(task.index, task.classes, ImageSet.from_arrays(train[members], labels[members])))
    torch.testing.assert_close(learner.statistics.sums, less.statistics.sums)
    assert len(learner.memory) == len(less.memory) == 47
    torch.testing.assert_close(learner.class_scores(TEST[0]), less.class_scores(TEST[0]), rtol=1e-4, atol=1e-4)


def test_all_images_of_a_class_cannot_be_removed() -> None:
    learner = trained("ncm")
    images, labels = STREAM[2].train.load()
    with pytest.raises(DataError, match="these are all images of class 4"):
        learner.remove_images(images, labels)
    assert len(learner.memory) == 50


@pytest.mark.parametrize("name", ["lda", "itaml"])
def test_other_ids_change_nothing_but_the_names(name: str) -> None:
    settings: dict[str, Any] = {} if name == "lda" else {"epochs": 1, "backbone": "mlp", "horizon": 3}
    learner = trained(name, **settings)
    before = learner.predict(TEST[0])
    ids = {0: 9, 1: 3, 2: 0, 3: 1, 4: 2}
    learner.renumber_classes(ids)
    after = learner.predict(TEST[0])
    assert after.columns == (9, 3, 0, 1, 2)
    assert [ids[c] for c in before.classes.tolist()] == after.classes.tolist()
    torch.testing.assert_close(after.probabilities, before.probabilities)


def test_a_method_that_cannot_says_so() -> None:
    learner = trained("ewc", epochs=1, backbone="mlp")
    with pytest.raises(SettingsError, match="the method EWC cannot remove or merge classes"):
        learner.forget_class(0)
    assert learner.task_map.tasks == ((0, 1), (2, 3), (4,))


def test_learners_of_the_package_are_editable() -> None:
    for name in ("lda", "itaml"):
        assert isinstance(learner_of(name, **({} if name == "lda" else {"backbone": "mlp", "horizon": 3})), Editable)


def test_a_class_that_is_not_there_is_named() -> None:
    for learner in (trained("lda"), trained("itaml", epochs=1, backbone="mlp", horizon=3)):
        with pytest.raises(DataError, match="class 7"):
            learner.forget_class(7)
