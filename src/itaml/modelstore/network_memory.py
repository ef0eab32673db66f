"""Refuse a network that this machine has no memory for, before it is made."""

from __future__ import annotations

import torch

from itaml.config import Settings
from itaml.errors import SettingsError
from itaml.hardware.machine import available_memory
from itaml.learners.settings import TrainingSettings
from itaml.models import backbone_traits
from itaml.models.classifier import build_classifier
from itaml.modelstore.manifest import Manifest

COPIES = 3  # of the weights that training needs at least: themselves, their gradients, and an adapted or saved copy


def check_memory(manifest: Manifest, settings: Settings) -> None:
    """Refuse a network whose weights and gradients do not fit into the memory.

    Raises:
        SettingsError: they do not.
    """
    free = available_memory()
    if not isinstance(settings, TrainingSettings) or manifest.shape is None or free is None:
        return
    if backbone_traits(settings.backbone).pretrained:
        return
    try:
        with torch.device("meta"):
            state = build_classifier(settings.backbone, shape=manifest.shape, seed=0).state_dict()
    except (RuntimeError, NotImplementedError):  # a network that cannot be described without being made
        return
    weights = sum(value.nbytes for value in state.values())
    if COPIES * weights > free:
        side = " x ".join(map(str, manifest.shape[1:]))
        raise SettingsError(
            f"{settings.backbone} for images of {side} pixels has {weights / 1e9:.1f} GB of weights, and training "
            f"needs at least {COPIES * weights / 1e9:.1f} GB, but {free / 1e9:.1f} GB are free: "
            "choose a smaller --image-size, or another --backbone"
        )
