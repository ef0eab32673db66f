"""EfficientNet-Lite: the published sizes, TensorFlow's padding, and folding that changes nothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from itaml.models.backbones.efficientnet_lite import (
    VARIANTS,
    EfficientNetLite,
    SameConv2d,
    round_channels,
    same_padding,
)
from itaml.models.backbones.fold import fold_batch_norm


def random_statistics(network: nn.Module) -> nn.Module:
    """Give every batch normalization statistics of its own, so that folding has something to do."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.2, generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
            nn.init.uniform_(module.weight, 0.5, 1.5, generator=generator)
            nn.init.normal_(module.bias, 0, 0.2, generator=generator)
    return network.eval()


def test_parameters_are_those_published() -> None:
    # 4.65M, 5.42M and 6.09M with the ImageNet classifier of 1280 x 1000 + 1000
    counts = {}
    for name, scaling in VARIANTS.items():
        network = EfficientNetLite(scaling.width, scaling.depth)
        counts[name] = sum(value.numel() for value in network.parameters()) + 1_281_000
    assert counts == {
        "efficientnet-lite0": 4_652_008,
        "efficientnet-lite1": 5_416_680,
        "efficientnet-lite2": 6_092_072,
    }


def test_same_padding_follows_tensorflow() -> None:
    assert same_padding(224, 3, 2) == (0, 1)
    assert same_padding(225, 3, 2) == (1, 1)
    assert same_padding(112, 5, 2) == (1, 2)
    assert same_padding(7, 5, 1) == (2, 2)


def test_a_strided_convolution_starts_at_the_first_pixel() -> None:
    layer = SameConv2d(1, 1, 3, stride=2, bias=False)
    nn.init.ones_(layer.weight)
    image = torch.arange(16.0).view(1, 1, 4, 4)
    expected = F.conv2d(F.pad(image, (0, 1, 0, 1)), layer.weight, stride=2)
    assert torch.equal(layer(image), expected)
    assert layer(image)[0, 0].tolist() == [[45.0, 39.0], [66.0, 50.0]]
    assert layer(torch.zeros(1, 1, 5, 7)).shape == (1, 1, 3, 4)


def test_channels_are_rounded_to_eights() -> None:
    assert [round_channels(1.1 * width) for width in (16, 24, 40, 80, 112, 192, 320)] == [16, 24, 48, 88, 120, 208, 352]
    assert round_channels(10) == 16  # 8 would be below nine tenths


def test_features_of_any_image_size() -> None:
    network = random_statistics(EfficientNetLite())
    with torch.inference_mode():
        for size in (32, 45):
            features = network(torch.zeros(2, 3, size, size))
            assert features.shape == (2, 1280)
            assert 0 <= float(features.min()) <= float(features.max()) <= 6


def test_folding_changes_features_by_rounding_only() -> None:
    network = random_statistics(EfficientNetLite()).double()
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    folded = fold_batch_norm(network)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in network.modules()) == 49
    with torch.inference_mode():
        torch.testing.assert_close(folded(images), network(images), rtol=1e-10, atol=1e-10)
    assert not any(value.requires_grad for value in folded.parameters())


def test_folding_keeps_what_it_does_not_know() -> None:
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1)
    )
    network = random_statistics_of(layers)
    folded = fold_batch_norm(network)
    assert [type(layer) for layer in folded.children()][1:4] == [nn.Identity, nn.ReLU, nn.BatchNorm2d]
    images = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(folded(images), network(images))


def random_statistics_of(layers: nn.Sequential) -> nn.Module:
    layers.train()
    layers(torch.randn(20, 3, 4, 4, generator=torch.Generator().manual_seed(2)))
    return layers.eval()
