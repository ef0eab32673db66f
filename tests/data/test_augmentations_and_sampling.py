"""Augmentation against loops over samples, and the orders in which an epoch walks."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from itaml import seeding
from itaml.data.augmentations import AUGMENTATIONS, Draws, augmentation, brightness, crop, cutout, flip
from itaml.data.sampling import balanced_order, union_order
from itaml.errors import UnknownNameError

IMAGES = torch.randint(0, 256, (40, 3, 6, 5), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def draws(count: int = len(IMAGES), *, seed: int = 0) -> Draws:
    return Draws(seeding.generator(seed), count)


def test_crop_shifts_each_image_as_a_loop_would() -> None:
    found = crop(IMAGES, draws(), pad=2)
    tops, lefts = torch.randint(0, 5, (2, 40), generator=seeding.generator(0)).tolist()
    for image, top, left, result in zip(IMAGES, tops, lefts, found, strict=True):
        assert torch.equal(F.pad(image, (2, 2, 2, 2))[:, top : top + 6, left : left + 5], result)
    assert len(set(zip(tops, lefts, strict=True))) > 10


def test_flip_changes_about_half() -> None:
    found = flip(IMAGES, draws())
    flipped = [torch.equal(result, image.flip(2)) for image, result in zip(IMAGES, found, strict=True)]
    kept = [torch.equal(result, image) for image, result in zip(IMAGES, found, strict=True)]
    assert all(a != b for a, b in zip(flipped, kept, strict=True))
    assert 10 <= sum(flipped) <= 30


def test_cutout_blanks_a_square_and_nothing_else() -> None:
    ones = torch.ones(30, 1, 9, 9)
    blank = cutout(ones, draws(len(ones)), size=3)[:, 0] == 0
    for mask in blank:
        rows, columns = mask.any(1).nonzero().flatten(), mask.any(0).nonzero().flatten()
        assert int(mask.sum()) == len(rows) * len(columns)
        assert 2 <= len(rows) <= 3
        assert 2 <= len(columns) <= 3


def test_brightness_scales_each_image_by_one_factor_within_bounds() -> None:
    floats = torch.ones(50, 1, 2, 2)
    factors = brightness(floats, draws(len(floats)), limit=0.25).flatten(1)
    assert bool((factors == factors[:, :1]).all())
    assert 0.75 <= float(factors.min()) < 0.85
    assert 1.15 < float(factors.max()) <= 1.25
    assert brightness(IMAGES, draws(), limit=0.25).dtype == torch.uint8


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_recipes_keep_shape_and_type_leave_their_input_and_repeat(name: str) -> None:
    before = IMAGES.clone()
    first, second, other = (augmentation(name)(IMAGES, draws(seed=seed)) for seed in (0, 0, 1))
    assert first.shape == IMAGES.shape
    assert first.dtype == IMAGES.dtype
    assert torch.equal(first, second)
    assert torch.equal(first, other) == (name == "none")
    assert torch.equal(IMAGES, before)


def test_an_unknown_recipe_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no augmentation 'crop-flp'; did you mean 'crop-flip'"):
        augmentation("crop-flp")


@given(st.integers(0, 50))
def test_the_union_shows_every_sample_once(count: int) -> None:
    assert sorted(union_order(count, generator=seeding.generator(0)).tolist()) == list(range(count))


@given(st.lists(st.integers(1, 15), min_size=1, max_size=5))
def test_balanced_epochs_show_all_tasks_equally_often(sizes: list[int]) -> None:
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    order = balanced_order(groups, generator=seeding.generator(0))
    assert len(order) == len(groups)
    counts = Counter(groups[order].tolist())
    shares = [counts.get(task, 0) for task in range(len(sizes))]
    assert max(shares) - min(shares) <= 1
    for task, size in enumerate(sizes):  # a small task comes round evenly, a large one is never repeated
        within = Counter(order[groups[order] == task].tolist())
        assert max(within.values(), default=0) <= -(-shares[task] // size)
