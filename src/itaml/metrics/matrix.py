"""Pure functions on the accuracy matrix; tested on cases worked by hand. Importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Matrix = Sequence[Sequence[float | None]]  # [i][j]: accuracy on task j after learning task i; None before it is learned


def average_incremental(after_each_task: Sequence[float]) -> float:
    """Return the mean over tasks of the accuracy on everything seen up to then."""
    return sum(after_each_task) / len(after_each_task)


def forgetting(matrix: Matrix) -> float:
    """Return the mean over old tasks of the best accuracy a task ever had, minus the one it has at the end.

    (Chaudhry et al., 2018.) It is 0 for a single task, and negative when old tasks got better.
    """
    losses = [max(column[:-1]) - column[-1] for column in _old_tasks(matrix)]
    return sum(losses) / len(losses) if losses else 0.0


def backward_transfer(matrix: Matrix) -> float | None:
    """Return the mean over old tasks of the accuracy at the end minus the one right after learning the task.

    (Lopez-Paz and Ranzato, 2017.) It is negative where old tasks were forgotten, and None for a single task.
    """
    gains = [column[-1] - column[0] for column in _old_tasks(matrix)]
    return sum(gains) / len(gains) if gains else None


def square(rows: Sequence[Sequence[float]]) -> list[list[float | None]]:
    """Fill the rows of a growing triangle up to a square with None."""
    size = len(rows)
    return [[*row, *[None] * (size - len(row))] for row in rows]


def _old_tasks(matrix: Matrix) -> Iterator[list[float]]:
    """Yield for each task but the last its accuracies, from right after it was learned to the end."""
    for task in range(len(matrix) - 1):
        known = [value for row in matrix[task:] if (value := row[task]) is not None]
        if len(known) > 1:
            yield known
