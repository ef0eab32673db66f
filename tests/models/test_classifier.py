"""The growing head, the classifier around any backbone, normalisation and sizes of the networks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from itaml import seeding
from itaml.data.images import ImageSet, Shape
from itaml.errors import DataError, UnknownNameError
from itaml.models.backbones.mlp import mlp, mlp_400
from itaml.models.backbones.resnet import resnet18, resnet18_small, resnet18_third
from itaml.models.classifier import Classifier, Normalize, build_classifier
from support import SHAPE, same_bits


def parameters(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


def grow(model: Classifier, *tasks: tuple[int, ...]) -> None:
    for task in tasks:
        model.head.grow(task, generator=seeding.generator(0, len(model.task_map)))


def test_growing_keeps_the_rows_that_are_there_to_the_bit() -> None:
    model = Classifier(mlp(SHAPE, hidden=(5,)), shape=SHAPE)
    grow(model, (4, 2), (7,))
    nn.init.normal_(model.head.bias)
    weight, bias = model.head.weight.detach().clone(), model.head.bias.detach().clone()
    grow(model, (0, 1, 3))
    assert torch.equal(model.head.weight[:3], weight)
    assert torch.equal(model.head.bias[:3], bias)
    assert model.head.weight.shape == (6, 5)
    assert model.head.bias[3:].tolist() == [0, 0, 0]
    assert bool((model.head.weight[3:].abs() <= 5**-0.5).all())
    assert model.task_map.tasks == ((4, 2), (7,), (0, 1, 3))
    assert model(torch.zeros(2, *SHAPE)).shape == (2, 6)


def test_new_rows_depend_on_their_generator_alone() -> None:
    rows = []
    for torch_seed in (0, 1):
        torch.manual_seed(torch_seed)
        model = Classifier(mlp(SHAPE, hidden=(5,)), shape=SHAPE)
        grow(model, (0, 1))
        rows.append(model.head.weight.detach())
    assert torch.equal(rows[0], rows[1])


def test_growing_keeps_the_number_format() -> None:
    model = Classifier(mlp(SHAPE, hidden=(5,)), shape=SHAPE).double()
    grow(model, (0, 1))
    assert model.head.weight.dtype == model.head.bias.dtype == torch.float64


def test_any_module_is_a_backbone_and_maps_are_flattened() -> None:
    class Odd(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images[:, :, ::2, ::2]

    model = Classifier(Odd(), shape=(3, 6, 6))
    grow(model, (0,))
    assert model.head.weight.shape == (1, 27)
    assert model.features(torch.zeros(2, 3, 6, 6)).shape == (2, 27)


def test_measuring_a_backbone_leaves_its_mode_and_statistics() -> None:
    backbone = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).train()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    Classifier(backbone, shape=SHAPE)
    assert backbone.training
    assert same_bits(dict(backbone.state_dict()), before)


def test_pixels_and_floats_are_normalised_by_hand() -> None:
    normalize = Normalize(2)
    images = torch.zeros(1, 2, 1, 2, dtype=torch.uint8)
    images[0, 0, 0] = torch.tensor([0, 255])
    images[0, 1, 0] = torch.tensor([51, 51])
    normalize.fit(images)
    assert normalize.mean.tolist() == pytest.approx([0.5, 0.2])
    assert normalize.std.tolist() == pytest.approx([0.5**0.5, 1e-3])  # a flat channel is not divided by zero
    expected = [-0.5 / 0.5**0.5, 0.5 / 0.5**0.5, 0.0, 0.0]
    assert normalize(images).flatten().tolist() == pytest.approx(expected, abs=1e-4)
    floats = torch.tensor([[[[0.0, 1.0]], [[0.2, 0.2]]]])
    assert normalize(floats).flatten().tolist() == pytest.approx(expected, abs=1e-4)


def test_normalisation_is_measured_on_evenly_spread_images() -> None:
    images = torch.arange(0, 200, dtype=torch.uint8).reshape(200, 1, 1, 1).expand(200, 1, 4, 4)
    model = Classifier(mlp(SHAPE, hidden=(2,)), shape=SHAPE)
    model.fit_normalization(ImageSet.from_arrays(images, [0] * 200), limit=3)  # positions 0, 99.5 -> 100, 199
    assert model.normalize.mean.item() == pytest.approx((0 + 100 + 199) / 3 / 255, abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 5, 4), (1, 4)])
def test_images_of_another_shape_are_refused_by_both_names(shape: tuple[int, ...]) -> None:
    model = Classifier(mlp(SHAPE, hidden=(2,)), shape=SHAPE)
    with pytest.raises(DataError) as caught:
        model(torch.zeros(2, *shape))
    assert "1 x 4 x 4" in str(caught.value)
    assert " x ".join(map(str, shape)) in str(caught.value)


def test_a_backbone_that_cannot_take_the_shape_is_refused() -> None:
    with pytest.raises(DataError, match="cannot take images of shape 1 x 4 x 4"):
        Classifier(nn.Conv2d(3, 2, 3), shape=SHAPE)


def test_an_unknown_model_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no backbone 'resnet18-smal'; did you mean 'resnet18-small'"):
        build_classifier("resnet18-smal", shape=SHAPE, seed=0)


def test_building_is_decided_by_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = build_classifier("mlp", shape=SHAPE, seed=3)
    torch.manual_seed(2)
    assert same_bits(dict(build_classifier("mlp", shape=SHAPE, seed=3).state_dict()), dict(first.state_dict()))
    assert not same_bits(dict(build_classifier("mlp", shape=SHAPE, seed=4).state_dict()), dict(first.state_dict()))


@pytest.mark.parametrize(
    ("network", "shape", "millions", "classes"),
    [
        (mlp_400, (1, 28, 28), 0.478, 10),  # 784*400 + 400 + 400*400 + 400 + 4010
        (resnet18_third, (3, 32, 32), 1.25, 100),
        (resnet18_small, (3, 32, 32), 0.49, 0),  # without its head
        (resnet18, (3, 224, 224), 11.23, 100),
    ],
)
def test_networks_have_the_papers_sizes(network: object, shape: Shape, millions: float, classes: int) -> None:
    assert callable(network)
    backbone = network(shape)
    features = Classifier(backbone, shape=shape).head.weight.shape[1]
    assert (parameters(backbone) + classes * (features + 1)) / 1e6 == pytest.approx(millions, rel=0.02)


def test_an_mlp_of_any_depth() -> None:
    assert parameters(mlp((1, 2, 2), hidden=(3, 5, 2))) == (4 * 3 + 3) + (3 * 5 + 5) + (5 * 2 + 2)
    assert mlp((1, 2, 2), hidden=())(torch.zeros(2, 1, 2, 2)).shape == (2, 4)


@pytest.mark.parametrize(("side", "stride"), [(8, 1), (32, 1), (64, 2), (128, 4)])
def test_the_stem_follows_the_size_of_the_images(side: int, stride: int) -> None:
    network = resnet18_small((3, side, side)).eval()
    seen: list[tuple[int, ...]] = []
    blocks = [module for module in network if type(module).__name__ == "BasicBlock"]  # type: ignore[attr-defined]
    blocks[0].register_forward_pre_hook(lambda _module, inputs: seen.append(tuple(inputs[0].shape)))
    with torch.no_grad():
        assert network(torch.zeros(1, 3, side, side)).shape == (1, 107)
    assert seen == [(1, 13, side // stride, side // stride)]
