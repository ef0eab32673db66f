"""Pretrained backbones as trainable networks, for fine-tuning; `models.features` computes frozen features."""

from __future__ import annotations

from typing import Literal

from torch import nn

from itaml.data.images import Shape
from itaml.errors import SettingsError
from itaml.models.backbones.hub import open_backbone
from itaml.models.backbones.spec import Backbone

Tune = Literal["none", "last", "all"]


def trainable_backbone(name: str, *, tune: Tune) -> Backbone:
    """Return a pretrained backbone whose last layers, or all, can be trained.

    Raises:
        SettingsError: the backbone is a fixed program.
    """
    backbone = open_backbone(name, fold=False)
    layers = [layer for layer in backbone.network.modules() if next(layer.parameters(recurse=False), None) is not None]
    if not layers:
        raise SettingsError(f"{name} has no weights that could be tuned; set tune=none")
    backbone.network.requires_grad_(tune == "all")
    if tune == "last":
        for layer in layers[-max(1, len(layers) // 3) :]:
            layer.requires_grad_()
    return backbone


def _network(name: str, shape: Shape) -> nn.Module:
    return trainable_backbone(name, tune="all").network


def efficientnet_lite0(shape: Shape) -> nn.Module:
    """Return EfficientNet-Lite0 with ImageNet weights."""
    return _network("efficientnet-lite0", shape)


def efficientnet_lite1(shape: Shape) -> nn.Module:
    """Return EfficientNet-Lite1 with ImageNet weights."""
    return _network("efficientnet-lite1", shape)


def efficientnet_lite2(shape: Shape) -> nn.Module:
    """Return EfficientNet-Lite2 with ImageNet weights."""
    return _network("efficientnet-lite2", shape)
