"""The exemplar memory, for any sequence of arrivals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from itaml import seeding
from itaml.data.images import ImageSet
from itaml.errors import CheckpointError, SettingsError
from itaml.memory.buffer import Memory
from support import same_bits


def make_images(counts: dict[int, int]) -> ImageSet:
    """Return images of two pixels: the class, and the number within the class."""
    labels = [class_id for class_id, count in counts.items() for _ in range(count)]
    numbers = [number for count in counts.values() for number in range(count)]
    pixels = torch.tensor([labels, numbers], dtype=torch.uint8).T.reshape(-1, 1, 1, 2)
    return ImageSet.from_arrays(pixels, labels)


def features(pixels: Tensor) -> Tensor:
    return pixels.flatten(1).float() + 1


def add(memory: Memory, counts: dict[int, int], seed: int = 0) -> None:
    memory.add(make_images(counts), list(counts), generator=seeding.generator(seed, "memory"), features=features)


def kept(memory: Memory) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {class_id: [] for class_id in memory.classes}
    exemplars = memory.exemplars()
    if exemplars is not None:
        pixels, labels = exemplars.load()
        for image, label in zip(pixels, labels.tolist(), strict=True):
            assert image[0, 0, 0].item() == label  # an image never changes its class
            found[label].append(int(image[0, 0, 1]))
    return found


arrivals = st.lists(
    st.dictionaries(st.integers(0, 12), st.integers(1, 12), min_size=1, max_size=4), min_size=1, max_size=6
)
selections = st.sampled_from(["random", "herding", "first", "content"])


@given(arrivals, st.integers(13, 60), selections)
def test_the_budget_is_never_exceeded(tasks: list[dict[int, int]], budget: int, selection: str) -> None:
    memory = Memory(budget=budget, selection=selection)
    for counts in tasks:  # classes may come back
        add(memory, counts)
        assert len(memory) <= budget
        assert len(memory) == sum(map(memory.count, memory.classes))
        assert all(len(set(numbers)) >= 1 for numbers in kept(memory).values())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(24, 100), selections)
def test_shares_are_equal_to_within_one_and_use_the_whole_budget(sizes: list[int], budget: int, selection: str) -> None:
    memory, start = Memory(budget=budget, selection=selection), 0
    for size in sizes:
        add(memory, dict.fromkeys(range(start, start + size), budget))  # enough images of every class
        start += size
        counts = [memory.count(class_id) for class_id in memory.classes]
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == (budget if selection != "content" else budget // len(counts) * len(counts))


@given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.integers(24, 60), selections)
def test_shrinking_keeps_a_prefix(sizes: list[int], budget: int, selection: str) -> None:
    memory, start = Memory(budget=budget, selection=selection), 0
    before: dict[int, list[int]] = {}
    for size in sizes:
        add(memory, dict.fromkeys(range(start, start + size), 15), seed=start)
        start += size
        after = kept(memory)
        for class_id, numbers in before.items():
            assert after[class_id] == numbers[: len(after[class_id])]
        before = after


def test_shares_by_hand() -> None:
    memory = Memory(budget=10, selection="first")
    add(memory, {3: 20, 1: 20})
    assert {c: memory.count(c) for c in memory.classes} == {3: 5, 1: 5}
    add(memory, {0: 20})
    assert {c: memory.count(c) for c in memory.classes} == {3: 4, 1: 3, 0: 3}
    add(memory, {7: 20})
    assert {c: memory.count(c) for c in memory.classes} == {3: 3, 1: 3, 0: 2, 7: 2}
    assert kept(memory)[3] == [0, 1, 2]


def test_a_class_with_few_images_keeps_them_all_and_others_do_not_take_its_room() -> None:
    memory = Memory(budget=10, selection="first")
    add(memory, {0: 2, 1: 20})
    assert {c: memory.count(c) for c in memory.classes} == {0: 2, 1: 5}


def test_random_selection_is_decided_by_the_generator() -> None:
    chosen = []
    for seed in (0, 0, 1):
        memory = Memory(budget=5)
        add(memory, {0: 50}, seed=seed)
        chosen.append(kept(memory)[0])
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(set(chosen[0])) == 5


def test_herding_keeps_images_whose_mean_is_near_the_class_mean() -> None:
    memory = Memory(budget=1, selection="herding")
    add(memory, {0: 9})
    unit = torch.nn.functional.normalize(features(make_images({0: 9}).load()[0]).double(), dim=1)
    assert kept(memory)[0] == [int((unit - unit.mean(0)).norm(dim=1).argmin())]


def test_pixels_are_kept_and_not_views_of_the_data() -> None:
    images = make_images({0: 5})
    memory = Memory(budget=5, selection="first")
    memory.add(images, [0], generator=seeding.generator(0))
    images.pixels.values.zero_()  # type: ignore[attr-defined]
    assert kept(memory)[0] == [0, 1, 2, 3, 4]


def test_exemplars_of_some_classes() -> None:
    memory = Memory(budget=6, selection="first")
    assert memory.exemplars() is None
    add(memory, {0: 5, 1: 5, 2: 5})
    some = memory.exemplars([2, 0, 9])
    assert some is not None
    assert some.labels.tolist() == [2, 2, 0, 0]
    assert memory.exemplars([9]) is None


def test_a_memory_comes_back_from_its_state() -> None:
    memory, other = Memory(budget=7), Memory(budget=1, selection="first")
    add(memory, {4: 9, 2: 9})
    other.load_state_dict(memory.state_dict())
    assert same_bits(other.state_dict(), memory.state_dict())
    assert other.classes == (4, 2)
    with pytest.raises(CheckpointError, match="not a saved memory"):
        other.load_state_dict({"budget": 3})


@pytest.mark.parametrize(
    ("budget", "selection", "message"),
    [(-1, "random", "memory of -1"), (5, "best", "random, herding, first, content, not 'best'")],
)
def test_impossible_memories(budget: int, selection: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Memory(budget=budget, selection=selection)


def test_a_budget_smaller_than_the_classes_is_refused_and_nothing_is_lost() -> None:
    memory = Memory(budget=2, selection="first")
    add(memory, {0: 3, 1: 3})
    with pytest.raises(SettingsError, match="a memory of 2 images is smaller than the 3 classes"):
        add(memory, {2: 3})
    assert kept(memory) == {0: [0], 1: [0]}


def test_no_budget_keeps_nothing() -> None:
    memory = Memory(budget=0)
    add(memory, {0: 3})
    assert len(memory) == 0
    assert memory.exemplars() is None


def test_merging_takes_turns_and_keeps_to_the_share() -> None:
    memory = Memory(budget=9, selection="first")
    add(memory, {0: 5, 1: 5, 2: 5})
    memory.merge(2, 0)
    pixels = memory.exemplars([0])
    assert pixels is not None
    assert pixels.load()[0].reshape(-1, 2).tolist() == [[0, 0], [2, 0], [0, 1], [2, 1], [0, 2]]  # 9 // 2 + 1 of 6
    assert memory.classes == (0, 1)


def test_classes_are_removed_renumbered_and_discarded_image_by_image() -> None:
    memory = Memory(budget=9, selection="first")
    add(memory, {0: 5, 1: 5, 2: 5})
    memory.remove(1)
    memory.remove(1)
    memory.discard(torch.tensor([[[[2, 1]]], [[[0, 7]]]], dtype=torch.uint8), torch.tensor([2, 0]))
    assert kept(memory) == {0: [0, 1, 2], 2: [0, 2]}
    memory.renumber({0: 0, 2: 1})
    assert memory.classes == (0, 1)
    assert memory.count(1) == 2
