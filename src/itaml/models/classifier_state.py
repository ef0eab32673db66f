"""A classifier as plain values, and back: its task map, weights and statistics."""

from __future__ import annotations

from typing import Any

from itaml.errors import CheckpointError
from itaml.models.classifier import Classifier
from itaml.models.task_map import TaskMap
from itaml.storage import State

MOST_CLASSES = 10_000_000


def classifier_state(model: Classifier) -> State:
    """Return everything that a classifier has learned, copied."""
    return {
        "table": [list(classes) for classes in model.task_map.tasks],
        "model": {name: value.clone() for name, value in model.state_dict().items()},
    }


def restore_classifier(model: Classifier, state: State) -> None:
    """Restore what `classifier_state` returned; the head takes its size.

    Raises:
        CheckpointError: it is of another network.
    """
    model.head.reset(_task_map(state["table"]))
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise CheckpointError(f"this state is of another network: {str(error).splitlines()[-1].strip()}") from error


def _task_map(table: Any) -> TaskMap:
    """Check the classes of each task, which a damaged or foreign state may have in any form."""
    tasks = [list(classes) if isinstance(classes, list | tuple) else [None] for classes in table]
    classes = [label for task in tasks for label in task]
    if not all(type(label) is int and 0 <= label < MOST_CLASSES for label in classes) or len(set(classes)) < len(
        classes
    ):
        raise CheckpointError("this state does not say which classes each task has")
    return TaskMap(tuple(map(tuple, tasks)))
