"""Streams: a sequence without a cursor, splits of any sizes, and training images held out."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from itaml.data.images import ImageSet, join
from itaml.data.stream import TaskStream, split_classes
from itaml.errors import DataError, SettingsError
from support import synthetic_stream


def test_a_stream_is_a_sequence_that_can_be_walked_again() -> None:
    stream = synthetic_stream((2, 1, 3))
    assert len(stream) == 3
    assert [task.classes for task in stream] == [(0, 1), (2,), (3, 4, 5)] == [task.classes for task in stream]
    assert [task.index for task in stream] == [0, 1, 2]
    assert stream[-1].classes == (3, 4, 5)
    assert isinstance(stream[1:], TaskStream)
    assert [task.classes for task in stream[1:]] == [(2,), (3, 4, 5)]
    with pytest.raises(IndexError):
        stream[3]


def test_tasks_hold_the_images_of_their_classes_and_no_test_images() -> None:
    stream = synthetic_stream((2, 1), train=4, test=3)
    assert stream[0].train.labels.tolist() == [0] * 4 + [1] * 4
    assert stream.test(1).labels.tolist() == [2] * 3
    assert {name for name in vars(stream[0]) if not name.startswith("_")} == {"index", "classes", "train", "keys"}
    assert stream[0].keys is None


@given(st.integers(1, 30), st.integers(1, 30), st.none() | st.integers(0, 5))
def test_splits_hold_every_class_once_and_are_even(classes: int, tasks: int, seed: int | None) -> None:
    if tasks > classes:
        with pytest.raises(SettingsError, match=f"{classes} classes cannot be split into {tasks} tasks"):
            split_classes(range(classes), sizes=tasks)
        return
    splits = split_classes(range(classes), sizes=tasks, order_seed=seed)
    assert sorted(c for split in splits for c in split) == list(range(classes))
    sizes = [len(split) for split in splits]
    assert max(sizes) - min(sizes) <= 1
    if seed is None:
        assert [c for split in splits for c in split] == list(range(classes))


def test_uneven_splits_by_hand_and_shuffled() -> None:
    assert split_classes(range(10), sizes=(4, 3, 2, 1)) == ((0, 1, 2, 3), (4, 5, 6), (7, 8), (9,))
    shuffled = [split_classes(range(10), sizes=(4, 6), order_seed=seed) for seed in (0, 0, 1)]
    assert shuffled[0] == shuffled[1] != shuffled[2]


def test_held_out_images_come_from_training_and_from_nowhere_else() -> None:
    stream = synthetic_stream((2, 2), train=10)
    validation = stream.validation_split(0.3, seed=0)
    rows = [set(part.rows.tolist()) for part in (validation.dataset.train, validation.dataset.test)]
    assert rows[0] | rows[1] == set(range(40))
    assert not rows[0] & rows[1]
    assert torch.bincount(validation.dataset.test.labels).tolist() == [3] * 4
    assert validation.dataset.test.pixels is stream.dataset.train.pixels
    again, other = stream.validation_split(0.3, seed=0), stream.validation_split(0.3, seed=1)
    assert torch.equal(again.dataset.test.rows, validation.dataset.test.rows)
    assert not torch.equal(other.dataset.test.rows, validation.dataset.test.rows)


@pytest.mark.parametrize(("fraction", "expected"), [(0.01, 1), (0.99, 9)])
def test_both_sides_keep_a_image_of_every_class(fraction: float, expected: int) -> None:
    validation = synthetic_stream((2,), train=10).validation_split(fraction, seed=0)
    assert torch.bincount(validation.dataset.test.labels).tolist() == [expected] * 2


def test_what_cannot_be_held_out_is_refused() -> None:
    with pytest.raises(SettingsError, match="between 0 and 1, not 1"):
        synthetic_stream().validation_split(1, seed=0)
    with pytest.raises(DataError, match="class 'class 0' has one image"):
        synthetic_stream(train=1).validation_split(0.5, seed=0)


def numbered(start: int, count: int) -> ImageSet:
    values = torch.arange(start, start + count, dtype=torch.uint8).reshape(-1, 1, 1, 1)
    return ImageSet.from_arrays(values, torch.arange(start, start + count))


def test_joined_sets_read_in_the_order_asked_for() -> None:
    joined = join([numbered(0, 3), numbered(10, 2).select(torch.tensor([1, 0])), numbered(20, 1)])
    assert joined.labels.tolist() == [0, 1, 2, 11, 10, 20]
    pixels, labels = joined.batch(torch.tensor([5, 0, 3, 3, 1]))
    assert pixels.flatten().tolist() == labels.tolist() == [20, 0, 11, 11, 1]
    assert joined.batch(torch.empty(0, dtype=torch.int64))[0].shape == (0, 1, 1, 1)


def test_joining_leaves_empty_sets_out_and_refuses_other_shapes() -> None:
    one = numbered(0, 3)
    assert join([one, one.select(torch.empty(0, dtype=torch.int64))]) is one
    with pytest.raises(DataError, match="different shapes"):
        join([one, ImageSet.from_arrays(torch.zeros(1, 3, 1, 1), [0])])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 4, 4), [0, 1], r"\(n, channels, height, width\)"),
        (torch.zeros(2, 1, 4, 4, dtype=torch.float64), [0, 1], "uint8 or float32, not torch.float64"),
        (torch.zeros(2, 1, 4, 4), [0], "2 images but 1 labels"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(images: torch.Tensor, labels: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ImageSet.from_arrays(images, labels)
