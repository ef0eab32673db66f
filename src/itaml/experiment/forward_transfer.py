"""What metrics measure of a task before it is learned (`Metric.before_task`), compared with before the first task."""

from __future__ import annotations

from typing import Any

from itaml.data.stream import Task, TaskStream
from itaml.learners.api import Learner
from itaml.metrics.metric_registry import measured

Measures = dict[str, float | None]


class ForwardTransfer:
    """Measures each task but the first right before it is learned, and all of them before anything is.

    The difference is what learning the other tasks has done for a task: the terms of forward transfer (Lopez-Paz and
    Ranzato, 2017). Nothing is measured in a run that goes on from a checkpoint without these numbers.
    """

    def __init__(self, learner: Learner, stream: TaskStream) -> None:
        self.learner, self.stream = learner, stream
        self._initial: list[Measures] | None = None  # of each task, before anything is learned
        self._before: Measures | None = None  # of the task under way

    def before(self, task: Task) -> Measures:
        """Return the gains of a task that is about to be learned, or under way; {} for the first task."""
        if self._initial is None:
            self._initial = [self._measure(other) for other in self.stream]
        if self._before is None:
            self._before = self._measure(task)
        initial = self._initial[task.index]
        return {key: _gain(value, initial.get(key)) for key, value in self._before.items()} if task.index else {}

    def learned(self) -> None:
        """Note that the task under way is learned."""
        self._before = None

    def _measure(self, task: Task) -> Measures:
        if not task.index:
            return {}
        test = self.stream.test(task.index)
        return {key: function(self.learner, task, test) for key, function in measured("before_task").items()}

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` takes."""
        return {"initial": self._initial, "before": self._before}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore a state; None is that of a checkpoint that has none."""
        if state is None:
            self._initial, self._before = [{} for _ in self.stream], None
        else:
            self._initial, self._before = state["initial"], state["before"]


def _gain(value: float | None, initial: float | None) -> float | None:
    return None if value is None or initial is None else value - initial
