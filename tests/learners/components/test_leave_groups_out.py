"""Images of one occasion are left out together, and whole classes are left out to have examples of unknown images."""

from __future__ import annotations

import torch
from torch import Tensor

from feature_support import features_and_labels
from itaml.inference.unknown import auroc
from itaml.learners.components.calibration_sample import calibration_rows
from itaml.learners.components.gaussian_classes import fit_gaussian_classes
from itaml.learners.components.leave_one_out import feature_variance, leave_one_out
from itaml.learners.components.left_out_products import products_left_out
from itaml.learners.components.left_out_scores import columns_of, whitened_images
from itaml.learners.components.similar_images import similar_images
from itaml.learners.components.statistics import collect, within_scatter
from itaml.models.pretraining_classes import PretrainingClasses

SHRINKAGE = 0.3


def series(*, classes: int = 8, occasions: int = 5, photos: int = 4, features: int = 60) -> tuple[Tensor, Tensor]:
    """Return features of photos that were taken in series: most of the difference is between the series."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, features, generator=generator, dtype=torch.float64)

    means = normal(classes)[:, None, None] + normal(classes, occasions)[:, :, None]
    values = means + 0.3 * normal(classes, occasions, photos)
    return values.flatten(0, 2), torch.arange(classes).repeat_interleave(occasions * photos)


def test_leaving_a_group_out_is_fitting_again_without_it() -> None:
    features, labels = features_and_labels(per_class=6, features=20)
    statistics = collect(features, labels)
    white = whitened_images(statistics, features, labels, shrinkage=SHRINKAGE)
    assert white is not None
    groups = torch.stack([torch.arange(30), (torch.arange(30) // 6) * 6 + (torch.arange(30) + 1) % 6], 1)
    groups[7, 1] = -1  # no neighbour
    found, _ = products_left_out(white, groups)
    level = SHRINKAGE * within_scatter(statistics).trace() / 20 / (statistics.total - 5)
    for index in (0, 7, 29):
        keep = torch.ones(30, dtype=torch.bool)
        keep[groups[index][groups[index] >= 0]] = False
        rest = collect(features[keep], labels[keep])
        covariance = white.scale * within_scatter(rest) + level * torch.eye(20, dtype=torch.float64)
        gaps = features[index] - rest.means
        expected = ((gaps @ torch.linalg.inv(covariance)) * gaps).sum(1)
        torch.testing.assert_close(found.squares[index] - 2 * found.inner[index] + found.mean_squares[index], expected)


def test_leaving_a_class_out_moves_the_origin_to_the_mean_of_the_others() -> None:
    features, labels = features_and_labels(per_class=6, features=20)
    statistics = collect(features, labels)
    white = whitened_images(statistics, features, columns_of(statistics, labels), shrinkage=SHRINKAGE)
    assert white is not None
    _, found = products_left_out(white, torch.full((30, 1), -1))  # no image left out: the covariance stays
    others = white.means[1:] - white.means[1:].mean(0)
    image = white.images[0] - white.means[1:].mean(0)
    torch.testing.assert_close(found.inner[0, 1:], others @ image)
    torch.testing.assert_close(found.squares[0], image.square().sum())
    torch.testing.assert_close(found.mean_squares[0, 1:], others.square().sum(1))


def test_images_of_one_occasion_are_found() -> None:
    features, labels = series()
    statistics = collect(features, labels)
    groups = similar_images(features - statistics.means[labels], labels, statistics.counts)
    assert groups[:, 0].tolist() == list(range(len(labels)))
    for index, group in enumerate(groups.tolist()):
        mates = {row for row in range(len(labels)) if row // 4 == index // 4}
        assert mates <= set(group)
        assert all(int(labels[row]) == int(labels[index]) for row in group if row >= 0)


def test_unrelated_images_are_left_out_one_by_one() -> None:
    for per_class in (2, 5, 20):
        features, labels = features_and_labels(classes=10, per_class=per_class, features=60)
        statistics = collect(features, labels)
        groups = similar_images(features - statistics.means[labels], labels, statistics.counts)
        assert groups.tolist() == [[row] for row in range(len(labels))]


def test_leaving_series_out_gives_the_accuracy_on_another_occasion() -> None:
    features, labels = series(classes=12)
    new = torch.arange(len(labels)) % 20 < 4  # one of five occasions
    train, test = ~new, new
    statistics = collect(features[train], labels[train])
    found = leave_one_out(statistics, features[train], labels[train], shrinkage=0.5)
    assert found is not None
    model = fit_gaussian_classes(statistics, features[train], labels[train], shrinkage=0.5)
    accuracy = float((model.scores(features[test]).argmax(1) == labels[test]).double().mean())
    assert abs(found.accuracy - accuracy) < 0.1
    refused = float(model.is_unknown(features[test]).double().mean())
    assert refused < 0.2, "the threshold holds on another occasion"


def test_images_with_their_class_left_out_look_unknown() -> None:
    features, labels = features_and_labels(classes=8, per_class=30, features=16, seed=3)
    features = features * 0.5 + 3
    found = leave_one_out(collect(features, labels), features, labels, shrinkage=0.3)
    assert found is not None
    unknown = found.unknown_signals(1.0)
    assert unknown is not None
    assert unknown.shape == (240, 3)
    for known, other in zip(found.signals(1.0).T, unknown.T, strict=True):
        assert auroc(known, other) > 0.55


def test_two_classes_have_no_example_of_an_unknown_image() -> None:
    features, labels = features_and_labels(classes=2)
    found = leave_one_out(collect(features, labels), features, labels, shrinkage=0.3)
    assert found is not None
    assert found.unknown_signals(1.0) is None
    detector = fit_gaussian_classes(collect(features, labels), features, labels).detector
    assert detector.weights is None


def test_affinities_leave_the_image_out_of_its_class() -> None:
    features, labels = features_and_labels(classes=4, per_class=5, features=6)
    features = features.abs()
    generator = torch.Generator().manual_seed(1)
    head = PretrainingClasses(torch.randn(9, 6, generator=generator), torch.zeros(9), "sqrt")
    statistics = collect(features, labels)
    found = leave_one_out(statistics, features, labels, shrinkage=0.3, pretraining=head)
    assert found is not None
    assert found.affinities is not None
    rest = collect(features[1:5], labels[1:5])
    variance = feature_variance(statistics)
    own = (head.roots(features[:1]) * head.roots(rest.means, variance)).sum()
    torch.testing.assert_close(found.affinities[0, 0], own)
    other = (head.roots(features[:1]) * head.roots(statistics.means[2:3], variance)).sum()
    torch.testing.assert_close(found.affinities[0, 2], other)
    assert found.signals(1.0).shape == (20, 4)
    model = fit_gaussian_classes(statistics, features, labels, pretraining=head)
    assert model.signals(features).shape == (20, 4)
    assert float(model.signals(features)[:, 3].max()) <= 1


def test_a_part_of_the_images_is_left_out_as_among_all_of_them() -> None:
    features, labels = series()
    statistics = collect(features, labels)
    rows = torch.tensor([3, 40, 77, 159])
    whole = leave_one_out(statistics, features, labels, shrinkage=SHRINKAGE)
    part = leave_one_out(statistics, features, labels, shrinkage=SHRINKAGE, rows=rows)
    assert whole is not None
    assert part is not None
    torch.testing.assert_close(part.known.products.inner, whole.known.products.inner[rows])
    torch.testing.assert_close(part.unknown.mean_squares, whole.unknown.mean_squares[rows])
    torch.testing.assert_close(part.cosines, whole.cosines[rows])
    assert torch.equal(part.known.counts, whole.known.counts[rows])


def test_the_calibration_takes_a_bounded_number_of_images_in_any_order_of_the_classes() -> None:
    for classes, per_class, expected in ((10, 20, 200), (100, 20, 200), (300, 5, 256), (1000, 2, 256)):
        generator = torch.Generator().manual_seed(0)
        features = torch.rand(classes * per_class, 3, generator=generator)
        labels = torch.arange(classes).repeat_interleave(per_class)
        rows = calibration_rows(features, labels)
        assert len(rows) == expected
        assert int(torch.bincount(labels[rows]).max()) <= max(1, 256 // classes) or len(labels) <= 256
        order = torch.randperm(classes, generator=generator)  # learned in another order: other class ids
        moved = torch.cat([torch.arange(label * per_class, (label + 1) * per_class) for label in order.tolist()])
        again = calibration_rows(features[moved], labels)
        assert sorted(moved[again].tolist()) == rows.tolist()
