"""Batches in a given order, read ahead or not, always the same; the thread ends with the iterator."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from itaml.data.images import ArrayPixels, ImageSet, Shape, join
from itaml.data.loader import in_memory, iterate
from itaml.errors import DataError, SettingsError


@dataclass
class Slow:
    """A store that is not in memory: pixel values are row numbers, and rows in `bad` or `fatal` cannot be read."""

    count: int
    bad: set[int] = field(default_factory=set)
    fatal: int | None = None
    reads: int = 0

    shape: Shape = (1, 1, 1)

    def __len__(self) -> int:
        return self.count

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        self.reads += 1
        if self.fatal in rows.tolist():
            raise DataError(f"row {self.fatal} is broken")
        kept = torch.tensor([at for at, row in enumerate(rows.tolist()) if row not in self.bad], dtype=torch.int64)
        return rows[kept].reshape(-1, 1, 1, 1).to(torch.uint8), kept


def lazy(store: Slow) -> ImageSet:
    return ImageSet(store, torch.arange(store.count) * 10, torch.arange(store.count))


def readers() -> int:
    return sum(thread.name == "itaml-read-ahead" for thread in threading.enumerate())


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_batches_are_slices_of_the_order(prefetch: int) -> None:
    order = torch.tensor([4, 2, 9, 0, 7])
    batches = list(iterate(lazy(Slow(10)), order, batch_size=2, prefetch=prefetch))
    assert [images.flatten().tolist() for images, _ in batches] == [[4, 2], [9, 0], [7]]
    assert [labels.tolist() for _, labels in batches] == [[40, 20], [90, 0], [70]]
    assert readers() == 0


@pytest.mark.parametrize("prefetch", [0, 2])
def test_unreadable_images_are_left_out_and_empty_batches_too(prefetch: int) -> None:
    batches = list(iterate(lazy(Slow(6, bad={0, 2, 3})), torch.arange(6), batch_size=2, prefetch=prefetch))
    assert [labels.tolist() for _, labels in batches] == [[10], [40, 50]]


def test_nothing_to_read_gives_no_batch() -> None:
    assert list(iterate(lazy(Slow(3)), torch.arange(0), batch_size=2)) == []


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_arrive_after_the_batches_before_them(prefetch: int) -> None:
    batches = iterate(lazy(Slow(10, fatal=5)), torch.arange(10), batch_size=2, prefetch=prefetch)
    assert next(batches)[1].tolist() == [0, 10]
    assert next(batches)[1].tolist() == [20, 30]
    with pytest.raises(DataError, match="row 5 is broken"):
        next(batches)
    assert readers() == 0


def test_the_reader_is_no_further_ahead_than_told() -> None:
    store = Slow(100)
    batches = iterate(lazy(store), torch.arange(100), batch_size=1, prefetch=3)
    next(batches)
    time.sleep(0.3)
    assert 2 <= store.reads <= 1 + 3 + 1  # given out, waiting in the queue, waiting for room in it
    batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["close", "forget", "break"])
def test_no_thread_is_left_when_the_consumer_stops(how: str) -> None:
    batches = iterate(lazy(Slow(1000)), torch.arange(1000), batch_size=1, prefetch=2)
    next(batches)
    assert readers() == 1
    if how == "close":
        batches.close()  # type: ignore[attr-defined]
    elif how == "forget":
        del batches
    else:
        for _ in batches:
            break
        del batches
    assert readers() == 0


def test_sets_in_memory_start_no_thread() -> None:
    images = ImageSet.from_arrays(torch.zeros(8, 1, 2, 2, dtype=torch.uint8), list(range(8)))
    for validation_images in (images, join([images, images])):
        assert in_memory(validation_images)
        batches = iterate(validation_images, torch.arange(8), batch_size=4, prefetch=2)
        next(batches)
        assert readers() == 0
    assert not in_memory(join([images, ImageSet(Slow(2, shape=(1, 2, 2)), torch.zeros(2).long(), torch.arange(2))]))
    assert isinstance(images.pixels, ArrayPixels)


@pytest.mark.parametrize(
    ("batch_size", "prefetch", "message"),
    [(0, 2, r"batch_size must be >= 1 \(got 0\)"), (4, -1, r"prefetch must be >= 0 \(got -1\)")],
)
def test_impossible_settings_are_refused_at_once(batch_size: int, prefetch: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        iterate(lazy(Slow(3)), torch.arange(3), batch_size=batch_size, prefetch=prefetch)
