"""Heads from statistics against scikit-learn, and leave-one-out against fitting N times."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from torch import Tensor

from feature_support import features_and_labels
from itaml.errors import SettingsError
from itaml.learners.components.leave_one_out import leave_one_out
from itaml.learners.components.left_out_scores import choose_shrinkage
from itaml.learners.components.linear_heads import (
    lda,
    nearest_mean,
    project,
    random_projection,
    ridge,
    shrunk_covariance,
)
from itaml.learners.components.statistics import collect, within_scatter


def differences(scores: Tensor) -> Tensor:
    """Return scores up to a constant per image, which no prediction depends on."""
    return scores - scores.mean(1, keepdim=True)


def test_lda_is_scikit_learns() -> None:
    features, labels = features_and_labels(per_class=9)
    count, classes = len(labels), 5
    # scikit-learn divides the scatter of each class by n_c; ours divides the pooled one by N - C
    reference = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(features.numpy(), labels.numpy())
    statistics = collect(features, labels)
    within = within_scatter(statistics) / (count - classes)
    ours = lda(statistics, shrinkage=0.3)
    ratio = (count - classes) / count
    covariance = 0.7 * within + 0.3 * within.trace() / 7 * torch.eye(7, dtype=torch.float64)
    np.testing.assert_allclose(covariance.numpy() * ratio, reference.covariance_, rtol=1e-9)
    expected = torch.from_numpy(reference.decision_function(features.numpy()))
    torch.testing.assert_close(differences(ours(features)) / ratio, differences(expected))


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_scikit_learns(intercept: bool) -> None:
    features, labels = features_and_labels()
    targets = torch.nn.functional.one_hot(labels).double()
    reference = Ridge(alpha=2.5, fit_intercept=intercept).fit(features.numpy(), targets.numpy())
    ours = ridge(collect(features, labels), penalty=2.5, intercept=intercept)
    torch.testing.assert_close(ours(features), torch.from_numpy(reference.predict(features.numpy())))


def test_ranpac_is_ridge_on_projected_features() -> None:
    features, labels = features_and_labels()
    projection = random_projection(7, 20, seed=3)
    assert torch.equal(projection, random_projection(7, 20, seed=3))
    hidden = project(features, projection)
    assert float(hidden.min()) == 0
    targets = torch.nn.functional.one_hot(labels).double()
    expected = hidden @ torch.linalg.solve(
        hidden.T @ hidden + torch.eye(20, dtype=torch.float64) * 0.5, hidden.T @ targets
    )
    torch.testing.assert_close(ridge(collect(hidden, labels), penalty=0.5, intercept=False)(hidden), expected)


def test_nearest_mean_orders_classes_by_distance() -> None:
    features, labels = features_and_labels()
    statistics = collect(features, labels)
    distances = torch.cdist(features, statistics.means).square()
    torch.testing.assert_close(differences(nearest_mean(statistics)(features)), differences(-distances / 2))


def test_one_image_per_class_makes_lda_the_nearest_mean() -> None:
    features, labels = features_and_labels(per_class=1)
    statistics = collect(features, labels)
    ours, reference = lda(statistics, shrinkage=0.5), nearest_mean(statistics)
    variance = (statistics.means - statistics.means.mean(0)).square().mean()
    torch.testing.assert_close(ours.weight * variance, reference.weight)
    torch.testing.assert_close(ours.bias * variance, reference.bias)


def test_leave_one_out_is_fitting_again_without_each_image() -> None:
    features, labels = features_and_labels(per_class=4, features=30)  # fewer images than features
    statistics, shrinkage = collect(features, labels), 0.2
    found = leave_one_out(statistics, features, labels, shrinkage=shrinkage)
    assert found is not None
    ridge_level = shrinkage * within_scatter(statistics).trace() / 30 / (statistics.total - 5)
    for index in range(len(labels)):
        keep = torch.arange(len(labels)) != index
        rest = collect(features[keep], labels[keep])
        covariance = (1 - shrinkage) * within_scatter(rest) / (rest.total - 5) + ridge_level * torch.eye(
            30, dtype=torch.float64
        )
        inverse = torch.linalg.inv(covariance)
        gaps = features[index] - rest.means
        products = found.known.products
        distances = products.squares[index] - 2 * products.inner[index] + products.mean_squares[index]
        torch.testing.assert_close(distances, ((gaps @ inverse) * gaps).sum(1))
        scores = rest.means @ inverse @ features[index] - ((rest.means @ inverse) * rest.means).sum(1) / 2
        plain = products.inner[[index]] - products.mean_squares[[index]] / 2
        torch.testing.assert_close(differences(plain), differences(scores[None]))
        cosines = torch.nn.functional.cosine_similarity(features[[index]], rest.means)
        torch.testing.assert_close(found.cosines[index], cosines)


def test_leaving_an_image_out_puts_its_class_at_no_disadvantage() -> None:
    # labels without meaning: each of two classes should win as often, although one has an image less
    features, _ = features_and_labels(classes=1, per_class=400, features=20)
    labels = torch.arange(400) % 100  # four images per class
    found = leave_one_out(collect(features, labels), features, labels, shrinkage=0.5)
    assert found is not None
    products = found.known.products
    plain = (products.inner - products.mean_squares / 2).argmax(1) == found.columns
    assert float(plain.double().mean()) < found.accuracy
    assert 0.005 < found.accuracy < 0.03  # chance is 0.01


def test_the_only_image_of_a_class_cannot_be_its_own() -> None:
    features, labels = features_and_labels(per_class=3)
    labels[0] = 9
    found = leave_one_out(collect(features, labels), features, labels, shrinkage=0.5)
    assert found is not None
    assert found.scores[0, 5] == -torch.inf
    assert bool(found.scores[1:].isfinite().all())
    assert found.known.alone.tolist() == [True] + [False] * 14
    assert found.signals(1.0).shape == (14, 3)


def test_too_few_images_leave_the_strongest_shrinkage() -> None:
    features, labels = features_and_labels(per_class=1)
    assert leave_one_out(collect(features, labels), features, labels, shrinkage=0.5) is None
    assert choose_shrinkage(collect(features, labels), features, labels, shrinkages=(0.1, 0.4)) == 0.4


def test_the_chosen_shrinkage_is_the_strongest_within_a_standard_error() -> None:
    features, labels = features_and_labels(per_class=6, features=40, seed=1)
    statistics = collect(features, labels)
    accuracy = {}
    for shrinkage in (0.01, 0.3, 0.99):
        found = leave_one_out(statistics, features, labels, shrinkage=shrinkage)
        assert found is not None
        accuracy[shrinkage] = found.accuracy
    best = max(accuracy.values())
    error = math.sqrt(best * (1 - best) / len(labels))
    chosen = choose_shrinkage(statistics, features, labels, shrinkages=tuple(accuracy))
    assert accuracy[chosen] >= best - error
    assert all(accuracy[other] < best - error for other in accuracy if other > chosen)


def test_impossible_settings_are_refused() -> None:
    statistics = collect(*features_and_labels())
    with pytest.raises(SettingsError, match=r"shrinkage must be > 0 and <= 1 \(got 0\)"):
        shrunk_covariance(statistics, 0)
    with pytest.raises(SettingsError, match=r"penalty must be > 0 \(got -1\)"):
        ridge(statistics, penalty=-1)
