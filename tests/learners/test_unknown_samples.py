"""Learners that say which samples are none of the classes, and what they store of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from itaml.config import Compute, Seeds, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import CheckpointError
from itaml.learners import LEARNERS
from itaml.learners.api import KnowsUnknown, knows_unknown
from itaml.learners.frozen import FrozenLearner
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.learners.methods.lda import LDA
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.spec import Preprocessing
from itaml.models.classifier import Classifier
from itaml.models.features import FeatureExtractor

CPU = Compute(device="cpu", precision="fp32")
EXACT = ("lda", "ranpac", "ncm")
SHAPE = (1, 4, 4)
BRIGHT = 200


def learner_of(name: str, **settings: Any) -> StatisticsLearner:
    kind = LEARNERS.load(name)
    values = {"memory": 200} | ({"width": 60, "penalty": 1.0} if name == "ranpac" else {}) | settings
    learner = kind.from_settings(build(kind.Settings, values), shape=SHAPE, seeds=Seeds.of(0), compute=CPU)
    assert isinstance(learner, StatisticsLearner)
    return learner


def samples(pixel: int, count: int, *, seed: int) -> Tensor:
    """Return dark, noisy images in which one pixel is bright: the class."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 50, (count, 16), dtype=torch.uint8, generator=generator)
    images[:, pixel] = BRIGHT
    return images.view(count, *SHAPE)


def task_of(index: int, pixels: tuple[int, ...], count: int) -> Task:
    images = torch.cat([samples(pixel, count, seed=pixel) for pixel in pixels])
    return Task(index, pixels, ImageSet.from_arrays(images, [pixel for pixel in pixels for _ in range(count)]))


@pytest.mark.parametrize("name", EXACT)
def test_samples_of_no_class_are_unknown_and_most_known_ones_are_not(name: str) -> None:
    learner = learner_of(name)
    learner.learn(task_of(0, (0, 1, 2), 30))
    learner.learn(task_of(1, (3, 4), 30))
    assert knows_unknown(learner)
    known = torch.cat([samples(pixel, 20, seed=100 + pixel) for pixel in range(5)])
    unknown = torch.cat([samples(pixel, 20, seed=100 + pixel) for pixel in range(8, 12)])
    refused, found = learner.predict(known).unknown, learner.predict(unknown).unknown
    assert refused is not None
    assert found is not None
    assert refused.dtype == torch.bool
    assert float(refused.double().mean()) < 0.15
    assert float(found.double().mean()) > 0.8
    assert torch.equal(found, learner.unknown_scores(unknown) > learner.unknown_threshold)


@pytest.mark.parametrize("name", EXACT)
def test_one_image_per_class_gives_sensible_probabilities_and_refuses_nothing(name: str) -> None:
    learner = learner_of(name)
    learner.learn(task_of(0, (0, 1, 2), 1))
    assert learner.unknown_threshold == math.inf
    images = torch.cat([samples(pixel, 10, seed=50 + pixel) for pixel in range(3)])
    prediction = learner.predict(images, torch.arange(30))
    right = torch.arange(3).repeat_interleave(10)
    assert torch.equal(prediction.classes, right)
    confidence = prediction.probabilities.amax(1)
    assert bool(((confidence > 0.4) & (confidence < 1)).all())
    assert prediction.unknown is not None
    assert not bool(prediction.unknown.any())


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_single_class_is_certain_and_known(name: str, count: int) -> None:
    learner = learner_of(name)
    learner.learn(task_of(0, (3,), count))
    prediction = learner.predict(samples(3, 20, seed=9))
    assert prediction.probabilities.tolist() == [[1.0]] * 20
    assert prediction.unknown is not None
    assert int(prediction.unknown.sum()) <= 10, "not everything is refused"


@pytest.mark.parametrize("name", EXACT)
def test_an_opened_model_is_not_fitted_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(name)
    learner.learn(task_of(0, (0, 1, 2), 12))
    state = learner.state_dict()
    other = learner_of(name)
    monkeypatch.setattr(other.solver, "fit", None)
    other.load_state_dict(state)
    images = samples(1, 5, seed=7)
    first, second = learner.predict(images), other.predict(images)
    assert torch.equal(first.probabilities, second.probabilities)
    assert other.unknown_threshold == learner.unknown_threshold
    torch.testing.assert_close(learner.unknown_scores(images), other.unknown_scores(images), rtol=1e-12, atol=0)


def test_the_head_is_fitted_once_per_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of("lda")
    calls: list[int] = []
    original = LDA.fit
    monkeypatch.setattr(LDA, "fit", lambda self, *values: calls.append(1) or original(self, *values))  # type: ignore[func-returns-value]
    for index, pixels in enumerate(((0, 1), (2, 3))):
        learner.learn(task_of(index, pixels, 12))
        learner.predict(samples(0, 3, seed=5))
        learner.class_scores(samples(1, 3, seed=5))
        learner.state_dict()
        assert len(calls) == index + 1


@pytest.mark.parametrize("name", EXACT)
def test_a_calibration_of_an_older_version_is_fitted_again(name: str) -> None:
    learner = learner_of(name)
    learner.learn(task_of(0, (0, 1, 2), 12))
    state = learner.state_dict()
    del state["fit"]["weights"]
    state["fit"]["mean"] = state["fit"]["mean"] + 100
    other = learner_of(name)
    other.load_state_dict(state)
    images = samples(1, 5, seed=7)
    torch.testing.assert_close(other.unknown_scores(images), learner.unknown_scores(images))
    assert other.unknown_threshold == pytest.approx(learner.unknown_threshold)


def test_a_damaged_calibration_is_refused() -> None:
    learner = learner_of("lda")
    learner.learn(task_of(0, (0, 1), 5))
    state = learner.state_dict()
    state["fit"]["values"] = torch.zeros(4, dtype=torch.float64)
    with pytest.raises(CheckpointError, match="calibration of this state is damaged"):
        learner_of("lda").load_state_dict(state)


class _Flat(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def frozen(inner: Any) -> FrozenLearner:
    extractor = FeatureExtractor(module_backbone(_Flat(), Preprocessing(4, (0.0,), (1.0,))), flip=False)
    return FrozenLearner(inner((16, 1, 1)), extractor, shape=SHAPE)


def test_a_learner_on_frozen_features_knows_what_the_learner_inside_knows() -> None:
    def exact(shape: Any) -> StatisticsLearner:
        settings = LDA.Settings(memory=200)
        return StatisticsLearner(LDA(settings), settings, shape=shape, seeds=Seeds.of(0))

    def trained(shape: Any) -> GradientLearner:
        settings = ITAMLSettings(epochs=1, memory=60, horizon=3)
        return GradientLearner(
            ITAML, Classifier(nn.Flatten(), shape=shape), settings=settings, seeds=Seeds.of(0), compute=CPU
        )

    learner = frozen(exact)
    learner.learn(task_of(0, (0, 1, 2), 30))
    assert knows_unknown(learner)
    assert isinstance(learner, KnowsUnknown)
    unknown = samples(9, 20, seed=3)
    found = learner.unknown_scores(unknown) > (learner.unknown_threshold or 0)
    assert float(found.double().mean()) > 0.8
    told = learner.predict(unknown).unknown
    assert told is not None
    assert torch.equal(found, told)
    assert not knows_unknown(frozen(trained))
