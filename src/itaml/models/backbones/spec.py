"""What a pretrained backbone expects of an image and what it returns, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from itaml.data.fitting import Fitting, Interpolation
from itaml.errors import SettingsError


@dataclass(frozen=True)
class Preprocessing:
    """How pixels become a backbone's input.

    Args:
        size: side of the square input in pixels.
        mean: mean of each channel, for pixels between 0 and 1.
        std: standard deviation of each channel, for pixels between 0 and 1.
        interpolation: how images are resized.
        crop: share of the image's shorter side that the centre square keeps (timm's `crop_pct`).

    Raises:
        SettingsError: a value is impossible.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Interpolation = "bilinear"
    crop: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingsError(f"size must be >= 1 (got {self.size})")
        if len(self.mean) != len(self.std) or not self.mean:
            raise SettingsError(f"mean and std need one value per channel (got {len(self.mean)} and {len(self.std)})")
        if min(self.std) <= 0:
            raise SettingsError(f"std must be > 0 (got {min(self.std)})")
        if self.interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise SettingsError(f"interpolation must be one of {known} (got {self.interpolation!r})")
        if not 0 < self.crop <= 1:
            raise SettingsError(f"crop must be > 0 and <= 1 (got {self.crop})")

    @property
    def fitting(self) -> Fitting:
        """How an image of any size becomes the square input."""
        return Fitting(self.interpolation, self.crop)

    def normalize(self, images: Tensor) -> Tensor:
        """Return 8-bit images (n, channels, h, w) as the backbone's input of the same shape."""
        shape = (1, len(self.mean), 1, 1)
        mean = torch.tensor(self.mean, device=images.device).mul(255).view(shape)
        std = torch.tensor(self.std, device=images.device).mul(255).view(shape)
        return (images.to(torch.float32) - mean) / std


@dataclass(frozen=True)
class BackboneSpec:
    """Which backbone with which weights: enough to refuse another one.

    Args:
        name: what `open_backbone` was asked for, such as `efficientnet-lite0` or `timm:resnet18`.
        features: length of the feature vector.
        preprocessing: what the network expects of an image.
        weights_sha256: hash of the weights.
    """

    name: str
    features: int
    preprocessing: Preprocessing
    weights_sha256: str


@dataclass(frozen=True, eq=False)
class Backbone:
    """A network in evaluation mode, from normalised images (n, channels, size, size) to features (n, features)."""

    spec: BackboneSpec
    network: nn.Module
    memory_format: torch.memory_format = torch.channels_last  # of its input

    @torch.inference_mode()
    def features(self, images: Tensor) -> Tensor:
        """Return the features of 8-bit images (n, channels, h, w)."""
        inputs = self.spec.preprocessing.normalize(images).contiguous(memory_format=self.memory_format)
        return self.network(inputs)  # type: ignore[no-any-return]
