"""What inference keeps of tasks besides exemplars, where its settings say so, and carries along from task to task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.inference.own_task import take_snapshot

if TYPE_CHECKING:
    from itaml.inference.predictor import Predictor


def before_task(predictor: Predictor, images: ImageSet) -> None:
    """Compute what is needed from the network before a task is trained on `images`."""
    if predictor.settings.snapshot_heads:
        predictor.snapshots.before_task(images)
    if predictor.settings.align_head:
        predictor.gaussians.before_task(images)


def after_task(predictor: Predictor, task: Task, images: ImageSet) -> None:
    """Update what is kept to the network that was trained on `images`, and add the new classes."""
    if predictor.settings.snapshot_heads:
        take_snapshot(predictor, task, images)
    if predictor.settings.align_head:
        predictor.gaussians.after_task(task.classes, images)


def state_of(predictor: Predictor) -> dict[str, Any]:
    """Return what is kept, by the names of checkpoints."""
    s = predictor.settings
    return {
        **({"snapshots": predictor.snapshots.state_dict()} if s.snapshot_heads else {}),
        **({"gaussians": predictor.gaussians.state_dict()} if s.align_head else {}),
    }


def restore(predictor: Predictor, state: dict[str, Any]) -> None:
    """Restore what is kept from a checkpoint, which may have nothing of it.

    Raises:
        CheckpointError: it is something else.
    """
    predictor.snapshots.load_state_dict(state.get("snapshots"))
    predictor.gaussians.load_state_dict(state.get("gaussians"))
