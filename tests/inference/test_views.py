"""Test-time augmentation."""

from __future__ import annotations

import pytest
import torch

from itaml.data.augmentations import Draws, crop
from itaml.data.stream import TaskStream
from itaml.experiment.build import make_learner
from itaml.experiment.run_config import resolve
from itaml.inference.views import mean_over_views, views
from itaml.learners.learner import GradientLearner


def test_shifted_views_hold_the_image_moved_to_each_corner_and_zeros() -> None:
    image = torch.arange(1, 10).reshape(1, 1, 3, 3)
    found = [view[0, 0].tolist() for view in views(image, shift=1)]
    assert found == [
        [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        [[0, 0, 0], [0, 1, 2], [0, 4, 5]],
        [[0, 0, 0], [2, 3, 0], [5, 6, 0]],
        [[0, 4, 5], [0, 7, 8], [0, 0, 0]],
        [[5, 6, 0], [8, 9, 0], [0, 0, 0]],
    ]


def test_every_view_is_flipped() -> None:
    images = torch.rand(2, 3, 5, 4)
    plain, both = views(images, shift=2), views(images, shift=2, flip=True)
    assert len(both) == 2 * len(plain) == 10
    assert all(torch.equal(view.flip(3), flipped) for view, flipped in zip(both[::2], both[1::2], strict=True))
    assert all(torch.equal(view, kept) for view, kept in zip(plain, both[::2], strict=True))


def test_shifted_views_are_among_those_of_training_with_crop() -> None:
    images = torch.rand(1, 1, 6, 6)
    generator = torch.Generator().manual_seed(0)
    drawn = [crop(images, Draws(generator, 1), pad=1) for _ in range(300)]
    for view in views(images, shift=1):
        assert any(torch.equal(view, one) for one in drawn)


def test_outputs_are_averaged_over_the_views() -> None:
    images = torch.rand(3, 1, 4, 4)
    found = mean_over_views(images, lambda view: view[:, 0, 0], flip=True, shift=1)
    expected = torch.stack([view[:, 0, 0] for view in views(images, flip=True, shift=1)]).mean(0)
    assert torch.allclose(found, expected)


def test_without_augmentation_the_outputs_are_those_of_the_image() -> None:
    images = torch.rand(3, 1, 4, 4)
    assert torch.equal(mean_over_views(images, lambda view: view * 2), images * 2)


@pytest.mark.parametrize("flip", [False, True])
def test_a_learner_averages_scores_and_features_over_shifts(tiny_stream: TaskStream, flip: bool) -> None:
    config = resolve("digits", overrides={"epochs": 1, "memory": 12, "flip_tta": flip, "shift_tta": 1})
    learner = make_learner(config, tiny_stream)
    assert isinstance(learner, GradientLearner)
    learner.learn(tiny_stream[0])
    images = tiny_stream.test(0).load()[0]
    seen = views(images, flip=flip, shift=1)
    with torch.no_grad():
        expected = torch.stack([learner.model(view) for view in seen]).mean(0)
        features = torch.stack([learner.model.features(view) for view in seen]).mean(0)
    assert torch.allclose(learner.class_scores(images), expected, atol=1e-5)
    assert torch.allclose(learner.predictor.view_mean(images), features, atol=1e-5)
