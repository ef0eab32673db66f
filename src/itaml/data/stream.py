"""`TaskStream`: classes that arrive in groups, one group a task.

A stream is a sequence: it can be indexed, sliced and walked again, and has no cursor. A `Task` is all that a learner
may see of one step; the test images of a stream are reached through the stream alone, which learners never hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import overload

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.images import ClassId, ImageSet, Shape
from itaml.errors import DataError, SettingsError


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner may see of one step of a stream."""

    index: int
    classes: tuple[ClassId, ...]
    train: ImageSet
    keys: Tensor | None = None  # (n,) of the training images, from their content: for choices that ignore their order


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images of all classes, and the classes' names by class id."""

    name: str
    class_names: tuple[str, ...]
    train: ImageSet
    test: ImageSet


@dataclass(frozen=True, eq=False)
class TaskStream(Sequence[Task]):
    """A data set whose classes arrive in the order of `splits`."""

    dataset: Dataset
    splits: tuple[tuple[ClassId, ...], ...]

    def __post_init__(self) -> None:
        seen: dict[ClassId, int] = {}
        for index, classes in enumerate(self.splits):
            if not classes:
                raise DataError(f"task {index} has no classes")
            for class_id in classes:
                if not 0 <= class_id < len(self.dataset.class_names):
                    raise DataError(f"task {index} has class {class_id}, which {self.dataset.name} does not have")
                if class_id in seen:
                    name = self.dataset.class_names[class_id]
                    raise DataError(f"class {name!r} is in task {seen[class_id]} and again in task {index}")
                seen[class_id] = index
        present = set(self.dataset.train.labels.unique().tolist())
        for class_id in seen:
            if class_id not in present:
                raise DataError(f"class {self.dataset.class_names[class_id]!r} has no training images")

    def __len__(self) -> int:
        return len(self.splits)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> TaskStream: ...
    def __getitem__(self, index: int | slice) -> Task | TaskStream:
        if isinstance(index, slice):
            return replace(self, splits=self.splits[index])
        index = range(len(self))[index]
        return Task(index, self.splits[index], self.dataset.train.of_classes(self.splits[index]))

    def __iter__(self) -> Iterator[Task]:
        return (self[index] for index in range(len(self)))

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        return self.dataset.train.shape

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class id."""
        return self.dataset.class_names

    def test(self, index: int) -> ImageSet:
        """Return the test images of task `index`."""
        return self.dataset.test.of_classes(self.splits[range(len(self))[index]])

    def _repr_html_(self) -> str:
        """Return a table with images for notebooks."""
        from itaml.data.stream_display import stream_html  # noqa: PLC0415 (needed in notebooks alone)

        return stream_html(self)

    def validation_split(self, fraction: float, *, seed: int) -> TaskStream:
        """Return the stream whose test images are a part of its training images, for choosing settings honestly.

        The real test images are dropped. At least one image of each class goes to either side.

        Raises:
            SettingsError: the fraction is not between 0 and 1.
            DataError: a class has a single image.
        """
        if not 0 < fraction < 1:
            raise SettingsError(f"the validation fraction must lie between 0 and 1, not {fraction}")
        train = self.dataset.train
        kept, validation_rows = [], []
        for class_id in sorted(c for classes in self.splits for c in classes):
            positions = (train.labels == class_id).nonzero().flatten()
            if len(positions) < 2:
                raise DataError(f"class {self.class_names[class_id]!r} has one image: nothing to hold out")
            shuffle = torch.randperm(len(positions), generator=seeding.generator(seed, "held-out", class_id))
            count = min(max(1, round(fraction * len(positions))), len(positions) - 1)
            validation_rows.append(positions[shuffle[:count]])
            kept.append(positions[shuffle[count:]])
        parts = [train.select(torch.cat(side).sort().values) for side in (kept, validation_rows)]
        return replace(self, dataset=replace(self.dataset, train=parts[0], test=parts[1]))


def split_classes(
    classes: Sequence[ClassId], *, sizes: Sequence[int] | int, order_seed: int | None = None
) -> tuple[tuple[ClassId, ...], ...]:
    """Divide classes into tasks of the given sizes, or into `sizes` tasks as even as can be.

    The order is that of `classes`, or a random one when `order_seed` is given.

    Raises:
        SettingsError: the sizes do not add up to the number of classes, or a task would be empty.
    """
    if isinstance(sizes, int):
        if not 1 <= sizes <= len(classes):
            raise SettingsError(f"{len(classes)} classes cannot be split into {sizes} tasks")
        small, larger = divmod(len(classes), sizes)
        sizes = [small + (index < larger) for index in range(sizes)]
    if min(sizes, default=0) < 1:
        raise SettingsError(f"every task needs at least one class, not {','.join(map(str, sizes))}")
    if sum(sizes) != len(classes):
        raise SettingsError(f"task sizes {','.join(map(str, sizes))} add up to {sum(sizes)}, not to {len(classes)}")
    order = list(classes)
    if order_seed is not None:
        shuffle = torch.randperm(len(order), generator=seeding.generator(order_seed, "class-order"))
        order = [order[position] for position in shuffle.tolist()]
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    return tuple(tuple(order[start:end]) for start, end in pairwise(ends))
