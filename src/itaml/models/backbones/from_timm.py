"""Backbones of timm, with the preprocessing that timm records beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from itaml.errors import CheckpointError, UnknownNameError
from itaml.models.backbones.module import import_optional, module_backbone
from itaml.models.backbones.spec import Backbone, Preprocessing
from itaml.registry import unknown


def open_timm_backbone(name: str, *, pretrained: bool = True, fold: bool = True) -> Backbone:
    """Return a timm model without its classifier.

    Args:
        name: timm's name, with a tag for the weights or without, such as `resnet18.a1_in1k`.
        pretrained: load the weights (timm downloads them once); False gives the network with random weights.
        fold: see `open_backbone`.

    Raises:
        MissingExtraError: timm is not installed.
        UnknownNameError: timm knows no such model.
        CheckpointError: the weights cannot be loaded.
    """
    timm = import_optional("timm", "timm", f"timm:{name}")
    if not timm.is_model(name):
        raise UnknownNameError(unknown("timm model", name, timm.list_models()))
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"timm cannot load the weights of {name}: {error}") from error
    return module_backbone(network, timm_preprocessing(network.pretrained_cfg), name=f"timm:{name}", fold=fold)


def timm_preprocessing(recorded: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing that a `pretrained_cfg` of timm describes."""
    method = recorded.get("interpolation", "bilinear")
    return Preprocessing(
        size=int(recorded["input_size"][-1]),
        mean=tuple(map(float, recorded["mean"])),
        std=tuple(map(float, recorded["std"])),
        interpolation="bilinear" if method == "random" else method,
        crop=float(recorded.get("crop_pct") or 1.0),
    )
