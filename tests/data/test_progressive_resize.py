"""Images that grow in the course of a task."""

from __future__ import annotations

import pytest
import torch

from itaml.config import Seeds
from itaml.data.images import ImageSet
from itaml.data.progressive_resize import downscale, side_at_progress
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier, build_classifier

SHAPE = (1, 16, 16)


def test_sides_grow_from_half_to_the_whole() -> None:
    sides = [side_at_progress(epoch / 8, full=32, start=0.5, until=0.75) for epoch in range(8)]
    assert sides == [16, 16, 16, 16, 20, 24, 32, 32]


def test_a_side_is_never_above_the_whole_nor_below_a_step() -> None:
    assert side_at_progress(0.7, full=30, start=0.9, until=0.75) == 28
    assert side_at_progress(0.74, full=31, start=0.99, until=0.75) == 31
    assert side_at_progress(0.0, full=8, start=0.1, until=1.0) == 4


def test_a_shrunk_pixel_is_the_mean_of_those_it_covers() -> None:
    images = torch.tensor([[0, 255, 51, 51], [255, 0, 51, 51], [0, 0, 102, 102], [0, 0, 102, 102]], dtype=torch.uint8)
    small = downscale(images[None, None], height=2, width=2)
    assert torch.allclose(small, torch.tensor([[[[0.5, 0.2], [0.0, 0.4]]]]))


def test_images_of_the_size_asked_for_are_left_alone() -> None:
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert downscale(images, height=8, width=8) is images


@pytest.mark.parametrize(("tasks", "later"), [("all", [8, 8, 16, 16]), ("first", [16] * 4)])
def test_training_sees_small_images_first_and_whole_ones_at_the_end(tasks: str, later: list[int]) -> None:
    sides: list[int] = []

    class Watched(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.training:
                sides.append(images.shape[-1])
            return images.mean((2, 3))

    settings = ITAMLSettings.model_validate(
        {
            "epochs": 4,
            "progressive_resize_from": 0.5,
            "progressive_resize_until": 0.5,
            "progressive_resize_in": tasks,
            "horizon": "open",
            "memory": 0,
        }
    )
    learner = GradientLearner(ITAML, Classifier(Watched(), shape=SHAPE), settings=settings, seeds=Seeds.of(0))
    for index, classes in enumerate(((0, 1), (2, 3))):
        labels = torch.tensor(classes).repeat(4)
        learner.learn(Task(index, classes, ImageSet.from_arrays(torch.zeros(8, *SHAPE, dtype=torch.uint8), labels)))
    assert sides == [8, 8, 16, 16, *later]


def test_a_network_of_a_fixed_size_is_refused() -> None:
    settings = ITAMLSettings(progressive_resize_from=0.5, horizon="open")
    with pytest.raises(SettingsError, match="takes images of any size"):
        GradientLearner(ITAML, Classifier(mlp(SHAPE, hidden=(8,)), shape=SHAPE), settings=settings, seeds=Seeds.of(0))


def test_a_residual_network_takes_any_size() -> None:
    model = build_classifier("resnet18-small", shape=SHAPE, seed=0)
    assert model.takes((1, 8, 8))
    assert not model.takes((3, 8, 8))
