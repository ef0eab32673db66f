"""A large exemplar memory is mapped from a file, and nothing else about it changes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch

from itaml import seeding
from itaml.data.images import ArrayPixels, ImageSet
from itaml.memory.buffer import Memory
from itaml.memory.mapped_store import MappedStore
from support import same_bits

ARRIVALS = [{0: 30, 1: 20}, {2: 25}, {1: 10, 3: 40}]  # class 1 comes twice


def _images(counts: dict[int, int], seed: int) -> ImageSet:
    labels = torch.tensor([class_id for class_id, count in counts.items() for _ in range(count)])
    pixels = torch.randint(256, (len(labels), 3, 4, 4), generator=torch.Generator().manual_seed(seed))
    return ImageSet.from_arrays(pixels.to(torch.uint8), labels)


def _filled(selection: str) -> Memory:
    memory = Memory(budget=22, selection=selection)
    for number, counts in enumerate(ARRIVALS):
        memory.add(
            _images(counts, number),
            list(counts),
            generator=seeding.generator(number, "memory"),
            features=lambda pixels: pixels.flatten(1).float() + 1,
        )
    return memory


@pytest.mark.parametrize("selection", ["random", "herding", "first"])
def test_a_mapped_memory_holds_the_same_images(selection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plain = _filled(selection)
    assert plain._store is None
    monkeypatch.setattr("itaml.memory.mapped_store.MAP_ABOVE", 22 * 3 * 4 * 4 - 1)
    mapped = _filled(selection)
    assert mapped._store is not None
    assert same_bits(plain.state_dict(), mapped.state_dict())
    for classes in (None, [3, 0], [1]):
        one, other = plain.exemplars(classes), mapped.exemplars(classes)
        assert one is not None
        assert other is not None
        assert isinstance(other.pixels, ArrayPixels)
        assert other.pixels.values is mapped._store.values  # views of the file: nothing is copied
        assert all(torch.equal(a, b) for a, b in zip(one.load(), other.load(), strict=True))
    assert not list(tmp_path.iterdir())  # the file has no name any more


def test_a_mapped_memory_can_be_edited_and_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _filled("random")
    monkeypatch.setattr("itaml.memory.mapped_store.MAP_ABOVE", 0)
    mapped = _filled("random")
    for memory in (plain, mapped):
        memory.keep(0, torch.tensor([2, 0]))
        memory.merge(3, 2)
        memory.renumber({0: 5, 1: 1, 2: 7})
    restored = Memory(budget=1)
    restored.load_state_dict(mapped.state_dict())
    assert same_bits(plain.state_dict(), restored.state_dict())
    one, other = plain.exemplars(), mapped.exemplars()
    assert one is not None
    assert other is not None
    assert all(torch.equal(a, b) for a, b in zip(one.load(), other.load(), strict=True))


def test_a_budget_without_bound_takes_no_more_room_than_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itaml.memory.mapped_store.MAP_ABOVE", 0)
    memory = Memory(budget=10**12)
    memory.add(_images({0: 3, 1: 2}, 0), [0, 1], generator=seeding.generator(0, "memory"))
    assert memory._store is not None
    assert len(memory._store.values) == len(memory) == 5


def test_a_tensor_that_is_no_view_of_a_store_has_no_rows() -> None:
    store = MappedStore(4, (1, 2, 2), torch.float32)
    store.put(torch.zeros(1, 1, 2, 2))
    view = store.put(torch.ones(2, 1, 2, 2))
    rows = store.rows_of(view)
    assert rows is not None
    assert rows.tolist() == [1, 2]
    assert store.rows_of(view.clone()) is None
