"""ResNet-18 with a width factor (He et al., 2016), for small and for large images.

The stem follows the image size, so that the last stage never works on less than an eighth of what the stem leaves:

| shorter side | stem                                  |
|--------------|---------------------------------------|
| up to 40     | 3x3 convolution (CIFAR style)         |
| up to 96     | 3x3 convolution, stride 2             |
| above        | 7x7 convolution, stride 2, max-pool 2 |
"""

from __future__ import annotations

from torch import Tensor, nn

from itaml.data.images import Shape

BACKBONES = {
    "resnet18": {
        "factory": "resnet18",
        "summary": "ResNet-18, 11.2M parameters, the paper's network for ImageNet",
        "smallest_side": 16,
    },
    "resnet18-third": {
        "factory": "resnet18_third",
        "summary": "ResNet-18 with a third of the filters, 1.25M parameters, the paper's for CIFAR-100 and SVHN",
        "smallest_side": 16,
    },
    "resnet18-small": {
        "factory": "resnet18_small",
        "summary": "ResNet-18 with a fifth of the filters, 0.49M parameters",
        "smallest_side": 16,
    },
}


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return self.merge(x, self.residual(x))

    def residual(self, x: Tensor) -> Tensor:
        """Return the output of the two convolutions."""
        return self.second_norm(self.second(self.relu(self.first_norm(self.first(x)))))  # type: ignore[no-any-return]

    def merge(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the block's output for a residual: its own, or the sum of those of several blocks."""
        return self.relu(residual + self.shortcut(x))  # type: ignore[no-any-return]


def resnet(shape: Shape, *, widths: tuple[int, int, int, int]) -> nn.Module:
    """Return a ResNet-18 whose four stages have the given numbers of filters; features are `widths[-1]`."""
    channels, height, width = shape
    layers = _stem(channels, widths[0], min(height, width))
    before = widths[0]
    for stage, after in enumerate(widths):
        layers += [BasicBlock(before, after, stride=1 if stage == 0 else 2), BasicBlock(after, after, stride=1)]
        before = after
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _stem(channels: int, filters: int, side: int) -> list[nn.Module]:
    norm = [nn.BatchNorm2d(filters), nn.ReLU(inplace=True)]
    if side <= 40:
        return [nn.Conv2d(channels, filters, 3, padding=1, bias=False), *norm]
    if side <= 96:
        return [nn.Conv2d(channels, filters, 3, stride=2, padding=1, bias=False), *norm]
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    return [nn.Conv2d(channels, filters, 7, stride=2, padding=3, bias=False), *norm, pool]


def resnet18(shape: Shape) -> nn.Module:
    """Return the full ResNet-18."""
    return resnet(shape, widths=(64, 128, 256, 512))


def resnet18_third(shape: Shape) -> nn.Module:
    """Return ResNet-18(1/3): a third of the filters, 1.25M parameters."""
    return resnet(shape, widths=(21, 42, 85, 170))


def resnet18_small(shape: Shape) -> nn.Module:
    """Return the 0.49M network of the paper's back-end study, read as ResNet-18 with a fifth of the filters."""
    return resnet(shape, widths=(13, 27, 54, 107))
