"""LDA with calibrated probabilities and a threshold for unknown images."""

from __future__ import annotations

import math

import pytest
import torch

from feature_support import features_and_labels
from itaml.inference.temperature import fit_temperature
from itaml.inference.unknown import auroc
from itaml.learners.components.gaussian_classes import fit_gaussian_classes, one_more_image
from itaml.learners.components.leave_one_out import leave_one_out
from itaml.learners.components.linear_heads import lda
from itaml.learners.components.statistics import collect
from itaml.models.features import pool_views


def test_scores_are_those_of_lda() -> None:
    features, labels = features_and_labels()
    statistics = collect(features, labels)
    found = fit_gaussian_classes(statistics, features, labels, shrinkage=0.3).scores(features)
    expected = lda(statistics, shrinkage=0.3)(features)
    torch.testing.assert_close(found - found.mean(1, keepdim=True), expected - expected.mean(1, keepdim=True))


def test_strange_classes_score_below_known_ones() -> None:
    features, labels = features_and_labels(classes=8, per_class=40, features=16)
    features = features * torch.where(torch.arange(16) < 8, 1.0, 0.25) + 3  # far from the origin, as a network's
    known, held_out = labels < 6, torch.arange(len(labels)) % 2 == 1
    train = known & ~held_out
    model = fit_gaussian_classes(collect(features[train], labels[train]), features[train], labels[train])
    score = model.detector.score(model.signals(features))
    assert auroc(score[known & held_out], score[~known]) > 0.85
    refused = model.is_unknown(features[known & held_out]).double().mean()
    assert 0.0 < float(refused) < 0.15


def test_the_signals_of_an_image_left_out_are_those_of_a_new_image() -> None:
    features, labels = features_and_labels(per_class=200, features=4)
    statistics = collect(features, labels)
    model = fit_gaussian_classes(statistics, features, labels, shrinkage=0.3)
    left_out = leave_one_out(statistics, features, labels, shrinkage=0.3)
    assert left_out is not None
    torch.testing.assert_close(
        left_out.signals(model.temperature), model.signals(features), rtol=0.1, atol=0.1
    )  # 1 of 200 images


def test_probabilities_use_the_temperature() -> None:
    features, labels = features_and_labels()
    model = fit_gaussian_classes(collect(features, labels), features, labels)
    expected = (model.scores(features) / model.temperature).softmax(1)
    assert torch.equal(model.probabilities(features), expected)
    assert model.temperature != pytest.approx(0.7)  # the default for seven features


def test_the_temperature_is_that_of_means_with_one_image_more() -> None:
    assert one_more_image(torch.tensor([2, 2, 1])) == pytest.approx(0.5**0.4)
    assert one_more_image(torch.tensor([2, 4])) == pytest.approx((0.5**0.4 + 0.75**0.4) / 2)
    assert one_more_image(torch.tensor([1, 1])) == 1
    features, labels = features_and_labels(per_class=4)
    model = fit_gaussian_classes(collect(features, labels), features, labels, shrinkage=0.3)
    left_out = leave_one_out(collect(features, labels), features, labels, shrinkage=0.3)
    assert left_out is not None
    fitted = fit_temperature(left_out.scores, left_out.columns)
    assert model.temperature == pytest.approx(fitted * 0.75**0.4)


def test_one_image_per_class_works_and_refuses_nothing() -> None:
    features, labels = features_and_labels(per_class=1)
    model = fit_gaussian_classes(collect(features, labels), features, labels)
    assert model.probabilities(features).argmax(1).tolist() == labels.tolist()
    assert model.temperature == pytest.approx(0.7)
    assert model.detector.threshold == -math.inf
    assert not bool(model.is_unknown(features * 100).any())


def test_a_single_class_refuses_what_points_elsewhere() -> None:
    features, labels = features_and_labels(classes=1, per_class=30)
    features = features + 5
    model = fit_gaussian_classes(collect(features, labels), features, labels)
    assert model.probabilities(features).tolist() == [[1.0]] * 30
    assert model.is_unknown(-features).all()
    assert int(model.is_unknown(features).sum()) <= 5


def test_views_are_averaged_before_the_square_root() -> None:
    found = pool_views(torch.tensor([[[4.0, -1.0], [0.0, -7.0]]]))
    assert found.tolist() == [[pytest.approx(math.sqrt(2), abs=2**-13), -2.0]]
    assert float(found[0, 0] * 2**12) == round(math.sqrt(2) * 2**12)
