"""Which class is in which task and column."""

from __future__ import annotations

import pytest
import torch

from itaml.errors import DataError
from itaml.models.task_map import TaskMap

TABLE = TaskMap().grown((7, 3)).grown((5,)).grown((0, 9, 4))


def test_columns_by_hand() -> None:
    assert TABLE.classes == (7, 3, 5, 0, 9, 4)
    assert TABLE.sizes == (2, 1, 3)
    assert [TABLE.columns(task) for task in range(3)] == [slice(0, 2), slice(2, 3), slice(3, 6)]
    assert TABLE.task_of_column.tolist() == [0, 0, 1, 2, 2, 2]
    assert TABLE.own_columns.int().tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    assert TABLE.class_tensor.tolist() == [7, 3, 5, 0, 9, 4]
    assert TABLE.column_of(torch.tensor([4, 7, 5, 0])).tolist() == [5, 0, 2, 3]
    assert TABLE.task_of(torch.tensor([4, 7, 5, 0])).tolist() == [2, 0, 1, 2]


def test_growing_returns_a_new_table() -> None:
    assert len(TABLE.grown((1,))) == 4
    assert len(TABLE) == 3
    assert TaskMap(((7, 3), (5,), (0, 9, 4))) == TABLE


@pytest.mark.parametrize("stranger", [1, 8, 10, 1000, -1])
def test_a_stranger_is_named(stranger: int) -> None:
    with pytest.raises(DataError, match=f"class {stranger} is in none of the 3 tasks"):
        TABLE.column_of(torch.tensor([7, stranger]))


def test_everybody_is_a_stranger_to_an_empty_table() -> None:
    with pytest.raises(DataError, match="class 0 is in none of the 0 tasks"):
        TaskMap().column_of(torch.tensor([0]))
    assert TaskMap().column_of(torch.tensor([], dtype=torch.int64)).tolist() == []


@pytest.mark.parametrize("classes", [(3,), (1, 9), (2, 2)])
def test_a_class_in_two_tasks_is_refused(classes: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="is in two tasks"):
        TABLE.grown(classes)


def test_an_empty_task_is_refused() -> None:
    with pytest.raises(DataError, match="at least one class"):
        TABLE.grown(())


def test_a_table_without_a_class_keeps_the_order_and_drops_an_empty_task() -> None:
    assert TABLE.without(9) == TaskMap(((7, 3), (5,), (0, 4)))
    assert TABLE.without(5) == TaskMap(((7, 3), (0, 9, 4)))
    with pytest.raises(DataError, match="class 1 is in none of the 3 tasks"):
        TABLE.without(1)
    assert TABLE.renumbered({7: 0, 3: 1, 5: 2, 0: 3, 9: 4, 4: 5}) == TaskMap(((0, 1), (2,), (3, 4, 5)))
