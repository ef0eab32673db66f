"""Patches of exemplars in new images: places, sources and shares of the area."""

import torch

from itaml.data.augmentations import Draws
from itaml.data.rehearsal_cutmix import paste_exemplars

NEW = torch.tensor([True] * 40 + [False] * 8)


def batch() -> torch.Tensor:
    """Return images (48, 1, 8, 8) whose pixels all are the image's number."""
    return torch.arange(48).float()[:, None, None, None].expand(48, 1, 8, 8).clone()


def draws(seed: int = 0) -> Draws:
    return Draws(torch.Generator().manual_seed(seed), 48)


def test_patches_come_from_exemplars_and_their_shares_are_those_of_the_pixels() -> None:
    images = batch()
    mixed, patches = paste_exemplars(images, NEW, draws(), probability=1.0)
    assert patches is not None
    assert torch.equal(images, batch()), "the images are not changed in place"
    assert torch.equal(mixed[40:], images[40:]), "exemplars stay as they are"
    assert patches.sources[:40].min() >= 40
    for number in range(48):
        source = patches.sources[number]
        pasted = mixed[number] == source
        own = mixed[number] == number
        assert bool((pasted | own).all())
        if number < 40:
            assert torch.isclose(pasted.float().mean(), patches.shares[number])
    assert patches.shares[40:].tolist() == [0.0] * 8
    assert 0.2 < patches.shares[:40].mean() < 0.5  # half of the area, less what the border cuts off


def test_a_patch_is_one_rectangle() -> None:
    mixed, patches = paste_exemplars(batch(), NEW, draws(1), probability=1.0)
    assert patches is not None
    for number in range(40):
        inside = mixed[number, 0] == patches.sources[number]
        rows, columns = inside.any(1), inside.any(0)
        assert torch.equal(inside, rows[:, None] & columns[None, :])
        for side in (rows, columns):
            assert int((side[1:] != side[:-1]).sum()) <= 2


def test_the_probability_is_the_share_of_new_images_with_a_patch() -> None:
    _, patches = paste_exemplars(batch(), NEW, draws(), probability=0.5)
    assert patches is not None
    changed = (patches.sources != torch.arange(48))[:40].float().mean()
    assert 0.25 < changed < 0.75


def test_nothing_is_pasted_without_exemplars_or_without_new_images() -> None:
    for new in (torch.ones(48, dtype=torch.bool), torch.zeros(48, dtype=torch.bool)):
        mixed, patches = paste_exemplars(batch(), new, draws(), probability=1.0)
        assert patches is None
        assert torch.equal(mixed, batch())
