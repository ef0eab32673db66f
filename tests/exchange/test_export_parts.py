"""Parts of exported networks: the resize is Pillow's, and fixed paths are the paths."""

from __future__ import annotations

import pytest
import torch

from itaml.exchange.export_scoring import FixedPaths
from itaml.exchange.resampling import resample
from itaml.models.backbones.mlp import mlp
from itaml.models.path_network import PathNetwork
from itaml.modelstore.image_arrays import resized

WIDE = [(64, 64), (37, 50), (100, 300), (224, 225), (97, 130), (8, 8), (33, 200)]
TALL = [(130, 97), (200, 33), (50, 37)]


def drawn(height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height * 1000 + width)
    return torch.randint(0, 256, (2, 3, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("size", WIDE)
@pytest.mark.parametrize("side", [48, 71, 224])
def test_squares_of_images_that_are_not_reduced_are_pillows_to_the_bit(size: tuple[int, int], side: int) -> None:
    images = drawn(*size)
    assert torch.equal(resample(images.float(), side, side, whole=True), resized(images, side, side).float())


@pytest.mark.parametrize("wanted", [(20, 28), (28, 20), (48, 48), (71, 71)])
@pytest.mark.parametrize("size", [*WIDE, *TALL])
def test_rectangles_and_tall_images_differ_by_a_level_at_most(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    images = drawn(*size)
    difference = resample(images.float(), *wanted, whole=True) - resized(images, *wanted).float()
    assert difference.abs().max() <= 1


@pytest.mark.parametrize("size", [(64, 64), (100, 300), (480, 640), (199, 200)])
def test_images_that_pillow_reduces_first_differ_by_a_level_at_most(size: tuple[int, int]) -> None:
    images = drawn(*size)
    difference = resample(images.float(), 8, 8, whole=True) - resized(images, 8, 8).float()
    assert difference.abs().max() <= 1


def test_floats_are_scaled_without_rounding() -> None:
    images = drawn(31, 44).float() / 7
    assert torch.allclose(resample(images, 16, 16, whole=False), resized(images, 16, 16), atol=1e-4)


def test_fixed_paths_compute_what_the_paths_compute() -> None:
    torch.manual_seed(0)
    paths = PathNetwork(mlp((1, 4, 4), hidden=(8, 6)), modules=3)
    paths.take([0, 0])
    paths.take([2, 1])
    images = torch.rand(5, 1, 4, 4)
    with torch.no_grad():
        assert torch.equal(FixedPaths(paths.eval())(images), paths(images))
