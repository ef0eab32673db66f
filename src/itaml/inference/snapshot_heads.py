"""`SnapshotHeads`: heads of single tasks, fitted when all images of the task were there, and carried along.

When a task has been learned, an own-task head (`own_head`) is fitted on the features of all its images. Later tasks
change the backbone. Features f of images before and g after it, of the new task and the exemplars, give a ridge
regression f = B^T (g - mean g) + mean f, and the head W f + b becomes W B^T g + b + W (mean f - B^T mean g).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.errors import CheckpointError
from itaml.inference.feature_drift import FeatureDrift, Features, ridge_map, spread
from itaml.inference.own_head import OwnHead, fit_anchored


class SnapshotHeads:
    """Own-task heads by task.

    Args:
        features: maps pixels to features of the present backbone (n, d), on the CPU.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._heads: dict[int, tuple[tuple[ClassId, ...], OwnHead]] = {}
        self._drift = FeatureDrift(features)

    def head(self, task: int, classes: tuple[ClassId, ...]) -> OwnHead | None:
        """Return the head of a task, None if there is none, or if it has other classes by now."""
        known, head = self._heads.get(task, ((), None))
        return head if known == tuple(classes) else None

    def before_task(self, images: ImageSet) -> None:
        """Compute the features of what a task is to be trained on, while the backbone is as it was."""
        if self._heads:
            self._drift.begin(images)

    def after_task(self, images: ImageSet) -> None:
        """Carry all heads along to the present backbone, with the same images."""
        features = self._drift.end(images)
        if features is not None:
            before, after = features
            matrix, offset = ridge_map(after, before)
            self._heads = {
                task: (classes, carried(head, matrix, offset)) for task, (classes, head) in self._heads.items()
            }

    def fit(self, task: int, classes: tuple[ClassId, ...], images: ImageSet, generic: OwnHead, **options: Any) -> None:
        """Fit the head of a task on all its images; see `fit_anchored` for the options."""
        own = images.of_classes(classes)
        positions = spread(len(own))
        pixels, labels = own.batch(positions)
        order = {class_id: position for position, class_id in enumerate(classes)}
        targets = torch.tensor([order[label] for label in labels.tolist()], dtype=torch.int64)
        head = fit_anchored(generic, self._features(pixels), targets, **options)
        self._heads[task] = (tuple(classes), head)

    def state_dict(self) -> dict[str, Any]:
        """Return the heads, and what is needed to continue in the middle of a task."""
        heads = {
            str(task): {"classes": list(classes), "weight": head.weight, "bias": head.bias}
            for task, (classes, head) in self._heads.items()
        }
        return {"heads": heads, "before": self._drift.before}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore what `state_dict` returned; None is nothing.

        Raises:
            CheckpointError: it is something else.
        """
        state = state or {"heads": {}, "before": torch.empty(0)}
        try:
            self._heads = {
                int(task): (tuple(one["classes"]), OwnHead(one["weight"].clone(), one["bias"].clone()))
                for task, one in state["heads"].items()
            }
            self._drift.before = state["before"].clone()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"not saved heads of tasks: {error!r}") from error


def carried(head: OwnHead, matrix: Tensor, offset: Tensor) -> OwnHead:
    """Return a head on new features that scores like `head` on old ones, which are new @ matrix + offset."""
    return OwnHead(head.weight @ matrix.T, head.bias + head.weight @ offset)
