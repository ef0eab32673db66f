"""Parts of exported networks: the resize is Pillow's, and fixed paths are the paths."""

from __future__ import annotations

import pytest
import torch

from itaml.exchange.export_scoring import FixedPaths
from itaml.exchange.resampling import resample
from itaml.models.backbones.mlp import mlp
from itaml.models.path_network import PathNetwork
from itaml.modelstore.image_arrays import resized

SIZES = [(64, 64), (37, 50), (100, 300), (224, 225), (8, 8), (33, 200), (130, 97), (300, 100), (50, 37), (1, 40)]
PHOTOS = [(480, 640), (640, 480), (1200, 1600), (2001, 1500)]


def drawn(height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height * 1000 + width)
    return torch.randint(0, 256, (2, 3, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("size", [*SIZES, *PHOTOS])
@pytest.mark.parametrize("side", [8, 28, 71, 224])
def test_squares_have_the_pixels_of_the_model_store_to_the_bit(size: tuple[int, int], side: int) -> None:
    images = drawn(*size)
    assert torch.equal(resample(images.float(), side, side, whole=True), resized(images, side, side).float())


def test_white_stays_white_where_sums_are_largest() -> None:
    images = torch.full((1, 3, 300, 3000), 255.0)
    assert (resample(images, 8, 8, whole=True) == 255).all()
    assert (resample(images, 1, 6, whole=True) == 255).all()


@pytest.mark.parametrize("wanted", [(20, 28), (28, 20)])
@pytest.mark.parametrize("size", [*SIZES, *PHOTOS])
def test_rectangles_differ_by_a_level_at_most(size: tuple[int, int], wanted: tuple[int, int]) -> None:
    """Pillow keeps the corners of the part that is scaled in single precision."""
    images = drawn(*size)
    difference = resample(images.float(), *wanted, whole=True) - resized(images, *wanted).float()
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
