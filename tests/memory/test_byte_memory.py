"""A memory counted in bytes: WebP files, an equal share for each class, the same after a restart."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from itaml import seeding
from itaml.data.images import ImageSet
from itaml.data.webp import encode_webp
from itaml.errors import CheckpointError, SettingsError
from itaml.memory.buffer import Memory
from itaml.memory.byte_memory import ByteMemory, fitting
from itaml.memory.webp_files import decoded, encoded, saved_files
from support import same_bits

SHAPE = (3, 16, 16)


def images_of(counts: dict[int, int], seed: int = 0, shape: tuple[int, int, int] = SHAPE) -> ImageSet:
    """Return images of smooth noise, whose files have different sizes."""
    labels = [class_id for class_id, count in counts.items() for _ in range(count)]
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(len(labels), shape[0], 4, 4, generator=generator)
    amplitude = torch.rand(len(labels), 1, 1, 1, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear") * amplitude
    return ImageSet.from_arrays((255 * pixels).to(torch.uint8), labels)


def features(pixels: Tensor) -> Tensor:
    return pixels.flatten(1).float() + 1


def add(memory: Memory, images: ImageSet, seed: int = 0) -> None:
    classes = sorted(set(images.labels.tolist()))
    memory.add(images, classes, generator=seeding.generator(seed, "memory"), features=features)


selections = pytest.mark.parametrize("selection", ["random", "herding", "first"])


def test_files_that_fit_worked_by_hand() -> None:
    assert fitting([4, 3, 2, 9], 9) == [0, 1, 2]  # 4 + 3 + 2 = 9
    assert fitting([4, 3, 2, 9], 8) == [0, 1]
    assert fitting([4, 6, 1], 8) == [0]  # the order of preference ends at the first that does not fit
    assert fitting([9, 3, 2, 4], 5) == [1, 2]  # an image larger than the share does not leave the class without any
    assert fitting([9, 8], 5) == []
    assert fitting([], 5) == []


@selections
def test_the_budget_holds_and_every_class_has_the_same_share_as_classes_arrive(selection: str) -> None:
    memory, budget = ByteMemory(budget=20_000, selection=selection), 20_000
    before: dict[int, list[bytes]] = {}
    for task in range(4):
        add(memory, images_of({2 * task: 80, 2 * task + 1: 80}, seed=task), seed=task)
        share = budget // len(memory.classes)
        files = saved_files(memory.state_dict())
        assert memory.bytes_used == sum(len(file) for one in files.values() for file in one) <= budget
        for class_id in memory.classes:
            assert memory.bytes_of(class_id) <= share
            larger = max(map(len, encoded(images_of({0: 80}, seed=class_id // 2).load()[0])))
            assert memory.bytes_of(class_id) > share - 2 * larger  # no room is left for another image
        for class_id, old in before.items():
            kept = files[str(class_id)]
            assert len(kept) < len(old)
            assert kept == old[: len(kept)]  # what is left is the beginning of what was preferred
        before = {int(key): one for key, one in files.items()}


class Unloaded:
    """Images that are read when they are asked for; the one at row 1 cannot be read."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    @property
    def shape(self) -> tuple[int, int, int]:
        return SHAPE

    def __len__(self) -> int:
        return len(self.images)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        readable = (rows != 1).nonzero().flatten()
        return self.images[rows[readable]], readable


def test_new_images_look_as_if_they_had_been_kept() -> None:
    images = images_of({3: 70, 5: 70})
    raw = images.load()[0]
    kept = decoded(encoded(raw), SHAPE)
    assert not torch.equal(kept, raw)
    pixels, labels = ByteMemory(budget=9_000).as_stored(images).load()
    assert torch.equal(pixels, kept)
    assert torch.equal(labels, images.labels)
    some = ByteMemory(budget=9_000).as_stored(images.select(torch.tensor([90, 4])))
    assert torch.equal(some.load()[0], kept[[90, 4]])
    unloaded = ImageSet(Unloaded(raw), images.labels, torch.arange(140))
    pixels, labels = ByteMemory(budget=9_000).as_stored(unloaded).batch(torch.tensor([0, 1, 80]))
    assert torch.equal(pixels, kept[[0, 80]])
    assert labels.tolist() == [3, 5]


def test_images_stay_as_they_are_without_a_memory_in_bytes() -> None:
    images = images_of({3: 2})
    assert ByteMemory(budget=0).as_stored(images) is images
    assert Memory(budget=2).as_stored(images) is images


@selections
def test_training_sees_the_decoded_pixels_of_the_files(selection: str) -> None:
    memory, images = ByteMemory(budget=9_000, selection=selection), images_of({3: 20, 5: 20})
    add(memory, images)
    exemplars = memory.exemplars()
    assert exemplars is not None
    pixels, labels = exemplars.load()
    files = saved_files(memory.state_dict())
    assert torch.equal(pixels, decoded([*files["3"], *files["5"]], SHAPE))
    assert labels.tolist() == [3] * len(files["3"]) + [5] * len(files["5"])
    originals = {encode_webp(image, lossless=False, effort=4): image for image in images.load()[0]}
    for image, file in zip(pixels, [*files["3"], *files["5"]], strict=True):
        difference = (image.float() - originals[file].float()).abs()
        assert difference.mean() < 12  # lossy (colours at half the resolution), but the same image
    assert any(not torch.equal(image, originals[file]) for image, file in zip(pixels[:5], files["3"], strict=False))


def test_the_first_selection_keeps_the_beginning_and_random_follows_its_seed() -> None:
    images = images_of({0: 40})
    expected = encoded(images.load()[0])
    first = ByteMemory(budget=3_000, selection="first")
    add(first, images)
    kept = saved_files(first.state_dict())["0"]
    assert 1 < len(kept) < 40
    assert kept == expected[: len(kept)]
    one, same, other = (ByteMemory(budget=3_000) for _ in range(3))
    for memory, seed in ((one, 0), (same, 0), (other, 1)):
        add(memory, images, seed)
    assert same_bits(one.state_dict(), same.state_dict())
    assert not same_bits(one.state_dict(), other.state_dict())


@selections
def test_a_restored_memory_continues_to_the_same_bits(selection: str) -> None:
    memory = ByteMemory(budget=9_000, selection=selection)
    add(memory, images_of({0: 30, 1: 30}))
    restored = ByteMemory(budget=1)
    restored.load_state_dict(memory.state_dict())
    for one in (memory, restored):
        add(one, images_of({1: 10, 2: 30}, seed=1), seed=1)  # class 1 comes back
    assert same_bits(memory.state_dict(), restored.state_dict())
    left, right = memory.exemplars(), restored.exemplars()
    assert left is not None
    assert right is not None
    assert torch.equal(left.load()[0], right.load()[0])


def test_a_class_that_comes_back_is_not_encoded_twice() -> None:
    memory = ByteMemory(budget=50_000, selection="first")
    add(memory, images_of({0: 5}))
    old = saved_files(memory.state_dict())["0"]
    new = images_of({0: 5}, seed=1)
    add(memory, new)
    assert saved_files(memory.state_dict())["0"] == [*old, *encoded(new.load()[0])]


@given(st.integers(6_000, 20_000), st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=15)
def test_no_arrival_exceeds_the_budget(budget: int, sizes: list[int], seed: int) -> None:
    memory, start = ByteMemory(budget=budget), 0
    for size in sizes:
        add(memory, images_of(dict.fromkeys(range(start, start + size), 12), seed=seed + start))
        start += size
        assert memory.bytes_used <= budget
        assert all(memory.count(class_id) for class_id in memory.classes)
        assert len({budget // start} | {memory.share(rank, start) for rank in range(start)}) == 1


def test_corrections_keep_files_and_images_together() -> None:
    memory = ByteMemory(budget=12_000)
    images = images_of({0: 10, 1: 10, 2: 10})
    add(memory, images)
    memory.remove(2)
    memory.merge(1, 0)
    memory.renumber({0: 7})
    files = saved_files(memory.state_dict())
    assert list(files) == ["7"]
    assert memory.bytes_used == sum(map(len, files["7"])) <= 12_000
    exemplars = memory.exemplars()
    assert exemplars is not None
    pixels = exemplars.load()[0]
    assert torch.equal(pixels, decoded(files["7"], SHAPE))
    original = images.load()[0][0]
    count = memory.count(7)
    memory.discard(original[None], torch.tensor([7]))  # the image as it was learned
    memory.discard(pixels[-1:], torch.tensor([7]))  # and one as it is kept
    assert memory.count(7) == count - 2


def test_grey_images_are_kept_in_grey() -> None:
    memory, shape = ByteMemory(budget=5_000), (1, 12, 10)
    add(memory, images_of({0: 10}, shape=shape))
    exemplars = memory.exemplars()
    assert exemplars is not None
    assert exemplars.shape == shape


def test_what_cannot_be_kept_is_refused() -> None:
    images = images_of({0: 5, 1: 5})
    largest = max(map(len, encoded(images.load()[0])))
    ByteMemory(budget=2 * largest).check_room(2, images)
    with pytest.raises(SettingsError, match=rf"for each of 3 classes, and an image takes up to {largest:,}: set a"):
        ByteMemory(budget=2 * largest).check_room(3, images)
    with pytest.raises(SettingsError, match="no image of class 0 fits into 30 bytes"):
        add(ByteMemory(budget=60), images)
    floats = ImageSet.from_arrays(torch.rand(4, 3, 8, 8), [0, 0, 1, 1])
    with pytest.raises(SettingsError, match="uint8 images in grey or RGB"):
        ByteMemory(budget=10_000).check_room(2, floats)
    with pytest.raises(SettingsError, match="not content"):
        ByteMemory(budget=10_000, selection="content")


def test_old_exemplars_that_do_not_fit_any_more_are_refused_before_anything_changes() -> None:
    memory = ByteMemory(budget=3_000)
    add(memory, images_of({0: 5}))
    smallest = min(map(len, saved_files(memory.state_dict())["0"]))
    before = memory.state_dict()
    with pytest.raises(SettingsError, match="set a larger memory_bytes"):
        memory.check_room(3_000 // smallest + 1)
    assert same_bits(before, memory.state_dict())


@pytest.mark.parametrize("key", ["budget", "selection", "classes", "shape", "files", "sizes"])
def test_a_damaged_state_is_refused(key: str) -> None:
    memory = ByteMemory(budget=3_000)
    add(memory, images_of({0: 5}))
    state = memory.state_dict()
    with pytest.raises(CheckpointError, match="not a saved memory of bytes"):
        ByteMemory(budget=1).load_state_dict({name: value for name, value in state.items() if name != key})
    files = {"0": torch.zeros(4, dtype=torch.uint8)}
    for damaged in ({"files": files}, {"files": files, "sizes": {"0": torch.tensor([4])}}, {"shape": [3, 9, 9]}):
        with pytest.raises(CheckpointError):
            ByteMemory(budget=1).load_state_dict({**state, **damaged})


def test_states_of_images_and_of_bytes_are_not_mistaken_for_each_other() -> None:
    images, files = Memory(budget=4), ByteMemory(budget=3_000)
    for memory in (images, files):
        add(memory, images_of({0: 5}))
    with pytest.raises(CheckpointError):
        images.load_state_dict(files.state_dict())
    with pytest.raises(CheckpointError):
        files.load_state_dict(images.state_dict())
