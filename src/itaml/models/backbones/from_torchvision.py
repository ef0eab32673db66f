"""Backbones of torchvision, with the preprocessing of their default weights."""

from __future__ import annotations

from typing import Any

from itaml.errors import CheckpointError, UnknownNameError
from itaml.models.backbones.module import import_optional, module_backbone, without_classifier
from itaml.models.backbones.spec import Backbone, Preprocessing
from itaml.registry import unknown


def open_torchvision_backbone(name: str, *, pretrained: bool = True, fold: bool = True) -> Backbone:
    """Return a torchvision classifier without its last linear layer.

    Args:
        name: torchvision's name, such as `resnet18`.
        pretrained: load the default weights (torchvision downloads them once); False gives random weights.
        fold: see `open_backbone`.

    Raises:
        MissingExtraError: torchvision is not installed, or was built for another torch.
        UnknownNameError: torchvision knows no such model.
        CheckpointError: the weights cannot be loaded.
    """
    models = import_optional("torchvision.models", "torchvision", f"torchvision:{name}")
    if name not in models.list_models():
        raise UnknownNameError(unknown("torchvision model", name, models.list_models()))
    weights = models.get_model_weights(name).DEFAULT
    try:
        network = models.get_model(name, weights=weights if pretrained else None)
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"torchvision cannot load the weights of {name}: {error}") from error
    preprocessing = torchvision_preprocessing(weights.transforms())
    return module_backbone(without_classifier(network), preprocessing, name=f"torchvision:{name}", fold=fold)


def torchvision_preprocessing(transforms: Any) -> Preprocessing:
    """Return the preprocessing that a preset of `torchvision.transforms` describes."""
    size, resized = transforms.crop_size[0], transforms.resize_size[0]
    return Preprocessing(
        size=size,
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
        interpolation=transforms.interpolation.value,
        crop=min(1.0, size / resized),
    )
