"""Confidence of learners that do not calibrate themselves: fitted to validation images, stored, applied."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from itaml.data.stream import Task
from itaml.errors import CheckpointError
from itaml.learners.api import Prediction
from itaml.metrics.calibration_error import expected_calibration_error
from itaml.modelstore.confidence import Confidence, fit_confidence
from itaml.storage import State

CLASSES = (4, 0, 7)


@dataclass
class Overconfident:
    """A learner whose samples are the right logits (n, 3, 1, 1), and which is `factor` times too sure of them."""

    factor: float = 6.0
    says_unknown: bool = False
    asked: list[int] = field(default_factory=list)

    def learn(self, task: Task) -> None:
        raise NotImplementedError

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        self.asked.append(len(images))
        probabilities = (images.flatten(1) * self.factor).softmax(1)
        unknown = torch.zeros(len(images), dtype=torch.bool) if self.says_unknown else None
        return Prediction(torch.tensor(CLASSES)[probabilities.argmax(1)], None, probabilities, CLASSES, unknown)

    def state_dict(self) -> State:
        raise NotImplementedError

    def load_state_dict(self, state: State) -> None:
        raise NotImplementedError


def samples(count: int, seed: int) -> dict[int, Tensor]:
    """Return logits of samples by their class, which is drawn from the logits' own probabilities."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(count, 3, generator=generator)
    columns = logits.softmax(1).multinomial(1, generator=generator).flatten()
    return {label: logits[columns == column, :, None, None] for column, label in enumerate(CLASSES)}


def test_confidence_becomes_calibrated_on_images_that_it_was_not_fitted_to() -> None:
    learner = Overconfident()
    confidence = fit_confidence(learner, samples(400, 0))
    assert confidence.temperature == pytest.approx(6, rel=0.15)
    new = samples(2000, 1)
    labels = torch.cat([torch.full((len(part),), label) for label, part in new.items()])
    before = learner.predict(torch.cat(list(new.values())))
    after = confidence(before)
    hits = before.classes == labels
    assert expected_calibration_error(before.probabilities.amax(1), hits) > 0.15
    assert expected_calibration_error(after.probabilities.amax(1), hits) < 0.05
    assert torch.equal(after.classes, before.classes)
    assert torch.equal(after.probabilities.argmax(1), before.probabilities.argmax(1))
    assert after.unknown is not None
    assert float(after.unknown.double().mean()) == pytest.approx(0.05, abs=0.025)
    assert bool((after.probabilities.amax(1)[after.unknown] < 0.5).all()), "the least certain ones are refused"
    assert after.unknown_scores is not None
    assert torch.equal(after.unknown_scores > confidence.unknown_threshold, after.unknown)
    certain_first = after.probabilities.amax(1).argsort(descending=True)
    assert bool((after.unknown_scores[certain_first].diff() >= -1e-5).all()), "less certain images score higher"


def test_it_is_the_same_after_a_round_trip() -> None:
    learner = Overconfident()
    confidence = fit_confidence(learner, samples(100, 0))
    found = learner.predict(torch.randn(20, 3, 1, 1, generator=torch.Generator().manual_seed(3)))
    again = Confidence.from_state(confidence.state_dict())(found)
    expected = confidence(found)
    assert torch.equal(again.probabilities, expected.probabilities)
    assert again.unknown is not None
    assert expected.unknown is not None
    assert torch.equal(again.unknown, expected.unknown)


def test_few_validation_images_change_nothing_and_refuse_nothing() -> None:
    learner = Overconfident()
    few = {label: part[:3] for label, part in samples(100, 0).items()}  # nine in all
    for validation in ({}, few, {4: torch.zeros(0, 3, 1, 1)}):
        confidence = fit_confidence(learner, validation)
        assert (confidence.temperature, confidence.unknown_threshold) == (1.0, math.inf)
    assert learner.asked == []
    found = learner.predict(torch.zeros(2, 3, 1, 1))
    assert confidence(found).unknown is not None
    assert not bool(confidence(found).unknown.any())  # type: ignore[union-attr]


def test_certain_images_do_not_make_the_confidence_certain() -> None:
    right = {label: 9.0 * torch.eye(3)[column].repeat(8, 1)[:, :, None, None] for column, label in enumerate(CLASSES)}
    learner = Overconfident(factor=1.0)
    confidence = fit_confidence(learner, right)
    after = confidence(learner.predict(right[4])).probabilities.amax(1)
    assert bool((after < 0.999).all())
    assert bool((after > 0.9).all())


def test_fewer_than_nineteen_validation_images_refuse_nothing() -> None:
    every = samples(60, 0)
    some = {label: part[:6] for label, part in every.items()}  # eighteen in all
    assert fit_confidence(Overconfident(), some).detector.threshold == -math.inf
    some[4] = every[4][:7]
    assert fit_confidence(Overconfident(), some).detector.threshold > -math.inf


def test_a_learner_that_says_what_is_unknown_is_left_alone() -> None:
    learner = Overconfident(says_unknown=True)
    confidence = fit_confidence(learner, samples(100, 0))
    assert confidence.temperature == 1.0
    found = learner.predict(torch.randn(5, 3, 1, 1))
    assert Confidence(3.0)(found) is found


def test_a_damaged_state_is_refused_and_a_missing_one_is_no_calibration() -> None:
    assert Confidence.from_state(None).temperature == 1.0
    state = Confidence(2.0).state_dict()
    with pytest.raises(CheckpointError, match="calibration of the confidence is damaged"):
        Confidence.from_state({**state, "values": torch.zeros(2, dtype=torch.float64)})
    with pytest.raises(CheckpointError, match="calibration of the confidence is damaged"):
        Confidence.from_state({**state, "mean": torch.zeros(3, dtype=torch.float64)})
