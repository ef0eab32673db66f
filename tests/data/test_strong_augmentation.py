"""TrivialAugment on batches: each operation against a value worked by hand or against Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from itaml.data import strong_augmentation as strong
from itaml.data.augmentations import Draws, augmentation

PIXELS = torch.randint(0, 256, (4, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def draws(count: int, seed: int = 0) -> Draws:
    return Draws(torch.Generator().manual_seed(seed), count)


def pillow(image: torch.Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float()


@pytest.mark.parametrize("name", strong.OPERATIONS)
def test_values_and_shapes_stay_in_range(name: str) -> None:
    for strength in (-1.0, -0.3, 0.0, 1.0):
        changed = strong.OPERATIONS[name](PIXELS.float(), torch.full((4,), strength))
        assert changed.shape == PIXELS.shape
        assert changed.min() >= 0
        assert changed.max() <= 255


@pytest.mark.parametrize(
    "name",
    [
        "identity",
        "saturation",
        "contrast",
        "brightness",
        "sharpness",
        "rotate",
        "shear-x",
        "shear-y",
        "shift-x",
        "shift-y",
    ],
)
def test_strength_zero_changes_nothing(name: str) -> None:
    changed = strong.OPERATIONS[name](PIXELS.float(), torch.zeros(4))
    assert torch.allclose(changed, PIXELS.float(), atol=1e-2)


def test_auto_contrast_is_that_of_pillow() -> None:
    narrow = (PIXELS // 3 + 40).to(torch.uint8)
    changed = strong.auto_contrast(narrow.float(), torch.ones(4))
    assert (changed[0] - tensor(ImageOps.autocontrast(pillow(narrow[0])))).abs().max() <= 1


def test_equalize_spreads_the_values() -> None:
    two = torch.zeros(1, 1, 2, 2)
    two[0, 0, 0, 0] = 100.0
    two[0, 0, 0, 1] = 101.0
    # zeros: the lowest half of the pixels becomes 0; the next two ranks are 1/2 and 1 of the rest
    assert strong.equalize(two, torch.ones(1)).flatten().tolist() == [127.5, 255.0, 0.0, 0.0]
    flat = torch.full((1, 3, 4, 4), 7.0)
    assert torch.equal(strong.equalize(flat, torch.ones(1)), flat)


def test_solarize_and_posterize_are_those_of_pillow() -> None:
    changed = strong.solarize(PIXELS.float(), torch.full((4,), 0.5))
    assert torch.equal(changed[0], tensor(ImageOps.solarize(pillow(PIXELS[0]), 128)))
    changed = strong.posterize(PIXELS.float(), torch.ones(4))
    assert torch.equal(changed[0], tensor(ImageOps.posterize(pillow(PIXELS[0]), strong.FEWEST_BITS)))


@pytest.mark.parametrize(
    ("name", "enhance"),
    [("saturation", ImageEnhance.Color), ("contrast", ImageEnhance.Contrast), ("brightness", ImageEnhance.Brightness)],
)
def test_colour_operations_are_those_of_pillow(name: str, enhance: type[ImageEnhance.Color]) -> None:
    changed = strong.OPERATIONS[name](PIXELS.float(), torch.full((4,), -0.5))
    expected = tensor(enhance(pillow(PIXELS[0])).enhance(1 - 0.5 * strong.LARGEST_FACTOR))
    assert (changed[0] - expected).abs().max() <= 1.5  # Pillow rounds the grey value


def test_shifts_move_by_whole_pixels() -> None:
    side = 32  # the largest shift is 10 of 32 pixels
    images = torch.rand(1, 1, side, side) * 255
    moved = strong.shift_x(images, torch.ones(1))
    assert torch.allclose(moved[..., : side - 10], images[..., 10:], atol=1e-2)
    assert float(moved[..., side - 10 :].abs().max()) == 0
    moved = strong.shift_y(images, -torch.ones(1))
    assert torch.allclose(moved[..., 10:, :], images[..., : side - 10, :], atol=1e-2)


def test_a_rotation_keeps_the_centre_and_moves_a_corner() -> None:
    images = torch.zeros(1, 1, 9, 9)
    images[..., 4, 4] = 255.0
    assert strong.rotate(images, torch.ones(1))[0, 0, 4, 4] == pytest.approx(255, abs=1e-2)
    corner = torch.zeros(1, 1, 9, 9)
    corner[..., 0, 0] = 255.0
    assert strong.rotate(corner, torch.ones(1))[0, 0, 0, 0] < 1


@pytest.mark.parametrize("name", ["trivial", "trivial-cutout"])
def test_the_same_numbers_give_the_same_images_in_bytes_and_floats(name: str) -> None:
    images = PIXELS.repeat(32, 1, 1, 1)
    first = augmentation(name)(images, draws(128))
    again = augmentation(name)(images, draws(128))
    floats = augmentation(name)(images.float() / 255, draws(128))
    assert first.dtype == torch.uint8
    assert torch.equal(first, again)
    assert (floats * 255 - first.float()).abs().max() <= 0.51  # bytes are rounded
    changed = (first != images).flatten(1).any(1).float().mean()
    assert changed > 0.7  # nearly all but the identity


def test_images_are_not_changed_in_place() -> None:
    images = PIXELS.float() / 255
    before = images.clone()
    augmentation("trivial-cutout")(images, draws(4))
    assert torch.equal(images, before)
