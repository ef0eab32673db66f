"""A classifier as plain values, and back: its task map, weights and statistics."""

from __future__ import annotations

from itaml.errors import CheckpointError
from itaml.models.classifier import Classifier
from itaml.models.task_map import TaskMap
from itaml.storage import State


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
    model.head.reset(TaskMap(tuple(tuple(classes) for classes in state["table"])))
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise CheckpointError(f"this state is of another network: {str(error).splitlines()[-1].strip()}") from error
