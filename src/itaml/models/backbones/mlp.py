"""MLPs of any depth."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import nn

from itaml.data.images import Shape

BACKBONES = {
    "mlp": {
        "factory": "mlp_400",
        "summary": "two hidden layers of 400, the paper's network for MNIST",
        "convolutional": False,
    },
    "pixels": {
        "factory": "pixels",
        "summary": "no network: the pixels themselves are the features",
        "convolutional": False,
    },
}


def mlp(shape: Shape, *, hidden: tuple[int, ...]) -> nn.Module:
    """Return an MLP that flattens its input and ends in the last hidden layer's activations."""
    widths = (math.prod(shape), *hidden)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


def mlp_400(shape: Shape) -> nn.Module:
    """Return the paper's network for MNIST: two hidden layers of 400."""
    return mlp(shape, hidden=(400, 400))


def pixels(shape: Shape) -> nn.Module:
    """Return the identity: the pixels themselves are the features."""
    return nn.Flatten()
