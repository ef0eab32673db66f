"""`TaskMap`: which class is in which task and which column of the head is whose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.errors import DataError


@dataclass(frozen=True)
class TaskMap:
    """Classes by task, in order of arrival. Column j of the head is the j-th class's; tasks may differ in size."""

    tasks: tuple[tuple[ClassId, ...], ...] = ()

    def grown(self, classes: tuple[ClassId, ...]) -> TaskMap:
        """Return the table with one more task.

        Raises:
            DataError: a class is there already, or the new task is empty.
        """
        if not classes:
            raise DataError("a task needs at least one class")
        known = set(self.classes)
        for class_id in classes:
            if class_id in known:
                raise DataError(f"class {class_id} is in two tasks of one stream")
            known.add(class_id)
        return TaskMap((*self.tasks, classes))

    def without(self, class_id: ClassId) -> TaskMap:
        """Return the table without a class; a task of which it was the only class goes too.

        Raises:
            DataError: the class is not in the table.
        """
        if class_id not in self.classes:
            raise DataError(f"class {class_id} is in none of the {len(self)} tasks learned so far")
        tasks = (tuple(other for other in task if other != class_id) for task in self.tasks)
        return TaskMap(tuple(task for task in tasks if task))

    def renumbered(self, ids: Mapping[ClassId, ClassId]) -> TaskMap:
        """Return the table with other class ids; every class needs one of its own."""
        return TaskMap(tuple(tuple(ids[class_id] for class_id in task) for task in self.tasks))

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def classes(self) -> tuple[ClassId, ...]:
        """Class of each column."""
        return tuple(class_id for task in self.tasks for class_id in task)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of each task."""
        return tuple(map(len, self.tasks))

    def columns(self, task: int) -> slice:
        """Return the columns of a task."""
        start = sum(self.sizes[:task])
        return slice(start, start + self.sizes[task])

    @cached_property
    def class_tensor(self) -> Tensor:
        """Class of each column (columns,)."""
        return torch.tensor(self.classes, dtype=torch.int64)

    @cached_property
    def task_of_column(self) -> Tensor:
        """Task of each column (columns,)."""
        return torch.repeat_interleave(torch.arange(len(self)), torch.tensor(self.sizes, dtype=torch.int64))

    @cached_property
    def own_columns(self) -> Tensor:
        """Which columns are each task's (tasks, columns), boolean."""
        return torch.arange(len(self))[:, None] == self.task_of_column

    @cached_property
    def _column_of_class(self) -> Tensor:
        lookup = torch.full((max(self.classes, default=0) + 1,), -1)
        lookup[self.class_tensor] = torch.arange(len(self.classes))
        return lookup

    def column_of(self, labels: Tensor) -> Tensor:
        """Return the column of each class id.

        Raises:
            DataError: a class is not in the table.
        """
        inside = (labels >= 0) & (labels < len(self._column_of_class))
        columns = torch.where(inside, self._column_of_class[labels.clamp(0, len(self._column_of_class) - 1)], -1)
        if len(columns) and int(columns.min()) < 0:
            stranger = labels[columns < 0][0].item()
            raise DataError(f"class {stranger} is in none of the {len(self)} tasks learned so far")
        return columns

    def task_of(self, labels: Tensor) -> Tensor:
        """Return the task of each class id (see `column_of` for errors)."""
        return self.task_of_column[self.column_of(labels)]
