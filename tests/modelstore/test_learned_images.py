"""Learners of sums count an image once, also if it is not kept; digests of learned images follow corrections."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from itaml.errors import CheckpointError
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.modelstore import learned_images
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.learned_images import NO_IMAGES, LearnedImages
from modelstore_support import digits_of


@pytest.fixture
def classifier(tmp_path: Path) -> ImageClassifier:
    made = ImageClassifier.create(tmp_path / "model", method="lda", memory=8)  # keeps 4 of the 12 images of each class
    made.learn(*digits_of((0, 1)))
    return made


def counts(classifier: ImageClassifier) -> list[int]:
    learner = classifier._model.core
    assert isinstance(learner, StatisticsLearner)
    return learner.statistics.counts.tolist()


def moment(classifier: ImageClassifier) -> torch.Tensor:
    learner = classifier._model.core
    assert isinstance(learner, StatisticsLearner)
    return learner.statistics.moment


def test_an_image_that_is_not_kept_any_more_is_not_counted_twice(classifier: ImageClassifier) -> None:
    before = moment(classifier)
    assert (counts(classifier), classifier.info()["exemplars"]) == ([12, 12], 8)
    opened = ImageClassifier.open(classifier.path)
    report = opened.learn(*digits_of((0, 1)))
    assert (report.changed, report.record.duplicates) == (False, 24)
    report = opened.learn(*digits_of((0, 1), limit=14))
    assert (counts(opened), report.record.duplicates) == ([14, 14], 24)
    opened.rollback()
    torch.testing.assert_close(moment(opened), before, rtol=1e-12, atol=1e-12)


def test_an_image_that_is_not_kept_moves_to_another_class(classifier: ImageClassifier, tmp_path: Path) -> None:
    images, labels = digits_of((0, 1))
    report = classifier.learn(images[:2], ["1", "1"])
    assert (report.record.moved, counts(classifier)) == (2, [10, 14])
    right = ImageClassifier.create(tmp_path / "right", method="lda", memory=8)
    right.learn(images, ["1", "1", *map(str, labels[2:])])
    torch.testing.assert_close(moment(classifier), moment(right), rtol=1e-9, atol=1e-9)
    assert classifier.learn(images[:2], ["1", "1"]).changed is False


def test_corrections_are_followed(classifier: ImageClassifier) -> None:
    images, labels = digits_of((0, 1))
    classifier.merge("1", "0")
    assert classifier.learn(images, ["0"] * 24).changed is False
    classifier.rollback()
    classifier.forget("0")
    assert counts(classifier) == [12]
    assert classifier.learn(images[12:], labels[12:]).changed is False
    assert classifier.learn(images[:12], labels[:12]).record.duplicates == 0


def test_the_oldest_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_images, "LIMIT", 3)
    monkeypatch.setattr(learned_images, "DROPPED", 1)
    digests = [bytes([number] * 16) for number in range(5)]
    found = NO_IMAGES.with_images(digests[:2], torch.tensor([0, 1])).with_images(digests[2:], torch.tensor([1, 0, 2]))
    assert found.pairs() == [(1, digests[2]), (0, digests[3]), (2, digests[4])]
    assert found.without(frozenset({(0, digests[3])})).pairs() == [(1, digests[2]), (2, digests[4])]
    assert found.renumbered({2: 0, 1: 1}).pairs() == [(1, digests[2]), (0, digests[4])]
    again = LearnedImages.from_state(found.state_dict(), classes=3)
    assert again.pairs() == found.pairs()
    with pytest.raises(CheckpointError, match="digests of learned images are damaged"):
        LearnedImages.from_state(found.state_dict(), classes=2)
