"""Exemplars that are chosen by their content are the same whatever the order of arrival."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from itaml import seeding
from itaml.data.images import ImageSet
from itaml.memory.buffer import Memory
from itaml.memory.selection import content_keys

CLASSES, EACH = 5, 9


def images() -> ImageSet:
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    pixels = torch.stack([labels, torch.arange(len(labels))], 1).to(torch.uint8)
    return ImageSet.from_arrays(pixels.reshape(-1, 1, 1, 2), labels)


def kept(memory: Memory) -> dict[int, list[int]]:
    found = memory.exemplars()
    assert found is not None
    pixels, labels = found.load()
    return {c: pixels[labels == c][:, 0, 0, 1].tolist() for c in sorted(memory.classes)}


def add(memory: Memory, part: ImageSet, keys: torch.Tensor | None = None) -> None:
    memory.add(part, range(CLASSES), generator=seeding.generator(0, "memory"), keys=keys)


@given(st.permutations(range(CLASSES * EACH)), st.integers(1, 6), st.integers(CLASSES, 40))
def test_any_order_and_any_split_keep_the_same_images(order: list[int], parts: int, budget: int) -> None:
    whole, memory = Memory(budget=budget, selection="content"), Memory(budget=budget, selection="content")
    add(whole, images())
    for part in torch.tensor(order).chunk(parts):
        add(memory, images().select(part))
    assert kept(memory) == kept(whole)
    assert all(len(numbers) == min(EACH, budget // CLASSES) for numbers in kept(whole).values())


def test_keys_that_are_given_decide() -> None:
    memory = Memory(budget=2 * CLASSES, selection="content")
    add(memory, images(), keys=-torch.arange(CLASSES * EACH))
    assert kept(memory)[1] == [17, 16]


def test_a_class_that_was_removed_and_comes_back_keeps_the_same_images() -> None:
    memory = Memory(budget=20, selection="content")
    add(memory, images())
    before = kept(memory)
    memory.remove(2)
    add(memory, images().of_classes([2]))
    assert kept(memory) == before


def test_merging_keeps_what_one_class_of_all_images_keeps() -> None:
    memory, other = Memory(budget=20, selection="content"), Memory(budget=20, selection="content")
    add(memory, images())
    memory.merge(0, 3)
    data = images()
    joined = ImageSet(data.pixels, data.labels.masked_fill(data.labels == 0, 3), data.rows)
    add(other, joined)
    assert kept(memory)[3][:4] == kept(other)[3][:4]  # more than the four smallest of each class is not known


def test_a_saved_memory_goes_on_choosing_the_same_images() -> None:
    memory, other = Memory(budget=15, selection="content"), Memory(budget=15, selection="content")
    add(memory, images().select(torch.arange(0, 45, 2)))
    other.load_state_dict(memory.state_dict())
    for one in (memory, other):
        one.renumber({0: 4, 1: 3, 2: 2, 3: 1, 4: 0})
        one.discard(torch.tensor([[[[2, 20]]]], dtype=torch.uint8), torch.tensor([2]))
        add(one, images().select(torch.arange(1, 45, 2)))
    assert kept(memory) == kept(other)
    assert 20 not in kept(memory)[2]


def test_keys_depend_on_the_content_alone() -> None:
    pixels = images().load()[0]
    assert torch.equal(content_keys(pixels.flip(0)), content_keys(pixels).flip(0))
    assert len(content_keys(pixels).unique()) == len(pixels)
