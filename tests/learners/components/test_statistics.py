"""Statistics of features: additive, order-independent to the bit, and reversible."""

from __future__ import annotations

import pytest
import torch

from feature_support import features_and_labels
from itaml.errors import DataError
from itaml.learners.components.linear_heads import lda
from itaml.learners.components.statistics import (
    FeatureStatistics,
    collect,
    empty_statistics,
    merge,
    remove_class,
    rename_class,
    subtract,
    within_scatter,
)


def same(first: FeatureStatistics, second: FeatureStatistics) -> bool:
    return (
        first.classes == second.classes
        and torch.equal(first.counts, second.counts)
        and torch.equal(first.sums, second.sums)
        and torch.equal(first.moment, second.moment)
    )


def test_statistics_of_three_images_by_hand() -> None:
    found = collect(torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]), torch.tensor([4, 4, 2]))
    assert found.classes == (2, 4)
    assert found.counts.tolist() == [1, 2]
    assert found.sums.tolist() == [[0.0, 1.0], [4.0, 2.0]]
    assert found.moment.tolist() == [[10.0, 2.0], [2.0, 5.0]]
    assert found.means.tolist() == [[0.0, 1.0], [2.0, 1.0]]
    assert within_scatter(found).tolist() == [[2.0, -2.0], [-2.0, 2.0]]


def test_order_of_arrival_does_not_change_a_bit() -> None:
    features, labels = features_and_labels()
    whole = collect(features, labels)
    for seed in range(3):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        found = empty_statistics(features.shape[1])
        for part in order.split(7):
            found = merge(found, collect(features[part], labels[part]))
        assert same(found, whole)
        first, second = lda(whole, shrinkage=0.3), lda(found, shrinkage=0.3)
        assert torch.equal(first.weight, second.weight)
        assert torch.equal(first.bias, second.bias)


def test_merge_does_not_care_who_comes_first() -> None:
    features, labels = features_and_labels()
    left, right = collect(features[:31], labels[:31]), collect(features[31:], labels[31:])
    assert same(merge(left, right), merge(right, left))


def test_subtracting_images_undoes_adding_them() -> None:
    features, labels = features_and_labels()
    part = collect(features[3:9], labels[3:9])
    rest = torch.cat([features[:3], features[9:]]), torch.cat([labels[:3], labels[9:]])
    assert same(subtract(collect(features, labels), part), collect(*rest))


def test_subtracting_all_images_of_a_class_drops_it() -> None:
    features, labels = features_and_labels()
    chosen = labels == 2
    expected = collect(features[~chosen], labels[~chosen])
    assert same(subtract(collect(features, labels), collect(features[chosen], labels[chosen])), expected)
    assert same(remove_class(collect(features, labels), 2, features[chosen]), expected)


def test_a_class_removed_without_its_features_leaves_the_covariance() -> None:
    features, labels = features_and_labels()
    before = collect(features, labels)
    after = remove_class(before, 2)
    assert after.classes == (0, 1, 3, 4)
    assert torch.equal(after.sums, before.sums[[0, 1, 3, 4]])
    expected = within_scatter(before) / (before.total - 5)
    torch.testing.assert_close(within_scatter(after) / (after.total - 4), expected)


def test_renaming_a_class_to_an_existing_one_merges_them() -> None:
    features, labels = features_and_labels()
    before = collect(features, labels)
    assert same(rename_class(before, 1, 9), collect(features, torch.where(labels == 1, 9, labels)))
    assert same(rename_class(before, 1, 4), collect(features, torch.where(labels == 1, 4, labels)))


def test_errors_name_the_wrong_value() -> None:
    features, labels = features_and_labels()
    known = collect(features, labels)
    with pytest.raises(DataError, match="class 7 has no statistics; known are 5 classes"):
        known.row(7)
    with pytest.raises(DataError, match="cannot remove 13 images of class 0: only 12 were learned"):
        subtract(known, collect(features[:13], torch.zeros(13, dtype=torch.int64)))
    with pytest.raises(DataError, match="class 1 has 12 images, not 3"):
        remove_class(known, 1, features[:3])
    with pytest.raises(DataError, match="length 7 and 3 cannot be combined"):
        merge(known, empty_statistics(3))
    with pytest.raises(DataError, match="not a finite number"):
        collect(torch.tensor([[float("nan")]]), torch.tensor([0]))
    with pytest.raises(DataError, match="do not belong together"):
        collect(features, labels[1:])
