"""Synthetic features of a few classes."""

from __future__ import annotations

import torch
from torch import Tensor

from itaml.models.features import round_to_grid


def features_and_labels(
    *, classes: int = 5, per_class: int = 12, features: int = 7, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    centers = torch.randn(classes, features, generator=generator)
    return round_to_grid(centers[labels] + torch.randn(len(labels), features, generator=generator)), labels
