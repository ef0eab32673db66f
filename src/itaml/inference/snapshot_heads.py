"""`SnapshotHeads`: heads of single tasks, fitted when all images of the task were there, and carried along.

When a task has been learned, an own-task head (`own_head`) is fitted on the features of all its images. Later tasks
change the backbone. Features f of images before and g after it, of the new task and the exemplars, give a ridge
regression f = B^T (g - mean g) + mean f, and the head W f + b becomes W B^T g + b + W (mean f - B^T mean g).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.errors import CheckpointError
from itaml.inference.own_head import OwnHead, fit_anchored

RIDGE = 1e-3  # relative to the mean variance of the features
MOST = 10_000  # images that a map, or a head, is fitted on
Features = Callable[[Tensor], Tensor]


class SnapshotHeads:
    """Own-task heads by task.

    Args:
        features: maps pixels to features of the present backbone (n, d), on the CPU.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._heads: dict[int, tuple[tuple[ClassId, ...], OwnHead]] = {}
        self._before = torch.empty(0)  # features before the task under way (n, d)

    def head(self, task: int, classes: tuple[ClassId, ...]) -> OwnHead | None:
        """Return the head of a task, None if there is none, or if it has other classes by now."""
        known, head = self._heads.get(task, ((), None))
        return head if known == tuple(classes) else None

    def before_task(self, images: ImageSet) -> None:
        """Compute the features of what a task is to be trained on, while the backbone is as it was."""
        self._before = self._of(images) if self._heads else torch.empty(0)

    def after_task(self, images: ImageSet) -> None:
        """Carry all heads along to the present backbone, with the same images."""
        if len(self._before):
            matrix, offset = ridge_map(self._of(images), self._before)
            self._heads = {
                task: (classes, carried(head, matrix, offset)) for task, (classes, head) in self._heads.items()
            }
        self._before = torch.empty(0)

    def fit(self, task: int, classes: tuple[ClassId, ...], images: ImageSet, generic: OwnHead, **options: Any) -> None:
        """Fit the head of a task on all its images; see `fit_anchored` for the options."""
        own = images.of_classes(classes)
        positions = _spread(len(own))
        pixels, labels = own.batch(positions)
        order = {class_id: position for position, class_id in enumerate(classes)}
        targets = torch.tensor([order[label] for label in labels.tolist()], dtype=torch.int64)
        head = fit_anchored(generic, self._features(pixels), targets, **options)
        self._heads[task] = (tuple(classes), head)

    def _of(self, images: ImageSet) -> Tensor:
        return self._features(images.batch(_spread(len(images)))[0])

    def state_dict(self) -> dict[str, Any]:
        """Return the heads, and what is needed to continue in the middle of a task."""
        heads = {
            str(task): {"classes": list(classes), "weight": head.weight, "bias": head.bias}
            for task, (classes, head) in self._heads.items()
        }
        return {"heads": heads, "before": self._before}

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
            self._before = state["before"].clone()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"not saved heads of tasks: {error!r}") from error


def ridge_map(new: Tensor, old: Tensor) -> tuple[Tensor, Tensor]:
    """Return B (d, d) and c (d,): old features are about new @ B + c; both are of the same images (n, d)."""
    new, old = new.double(), old.double()
    centre, other = new.mean(0), old.mean(0)
    moved = new - centre
    gram = moved.T @ moved
    level = (gram.trace() / len(gram)).clamp_min(1e-12)
    matrix = torch.linalg.solve(gram + RIDGE * level * torch.eye(len(gram), dtype=gram.dtype), moved.T @ (old - other))
    return matrix, other - centre @ matrix


def carried(head: OwnHead, matrix: Tensor, offset: Tensor) -> OwnHead:
    """Return a head on new features that scores like `head` on old ones, which are new @ matrix + offset."""
    return OwnHead(head.weight @ matrix.T, head.bias + head.weight @ offset)


def _spread(count: int) -> Tensor:
    """Return at most `MOST` positions of `count`, evenly spread."""
    return torch.arange(count) if count <= MOST else torch.linspace(0, count - 1, MOST).long()
