"""The own-task scores of a predictor (`adapt_scope=own-head`): from exemplars in several views, LDA and a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.augmentations import Draws, augmentation
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.inference.adaptation import GUARD_SHARE
from itaml.inference.own_head import OwnHead, Scores, fit_anchored, fit_lda, no_better, pooled

if TYPE_CHECKING:
    from itaml.inference.predictor import Predictor

SNAPSHOT_ANCHOR, SNAPSHOT_STEPS = 0.01, 200  # nearly converged


def fit_own_task(predictor: Predictor, task: int) -> Scores | None:
    """Return a function from features to scores of a task's own columns, None where the generic head serves.

    With `adapt_guard` one exemplar in five is not used for fitting and judges the result.
    """
    s, task_map = predictor.settings, predictor.task_map
    exemplars = predictor.memory.exemplars(task_map.tasks[task])
    if not s.adapt_steps or exemplars is None or task_map.sizes[task] < 2:
        return None
    images, labels = exemplars.load()
    generator = seeding.generator(predictor.seeds.adapt, "own head", task)
    order = torch.randperm(len(labels), generator=generator)
    held = order[: max(1, len(order) // GUARD_SHARE)] if s.adapt_guard else order[:0]
    rows = order[len(held) :].sort().values
    columns = task_map.columns(task)
    targets = task_map.column_of(labels) - columns.start
    features = [predictor.view_mean(view) for view in _views(images[rows], s.adapt_views, s.adapt_augment, generator)]
    fitted, their = torch.cat(features), targets[rows].repeat(s.adapt_views)
    generic = _generic(predictor, task)
    parts: list[tuple[float, Scores]] = []
    if s.adapt_lda and len(their.unique()) == task_map.sizes[task]:
        parts.append((s.adapt_lda, fit_lda(fitted, their, task_map.sizes[task])))
    snapshot = predictor.snapshots.head(task, task_map.tasks[task]) if s.adapt_snapshot else None
    if snapshot is not None:
        parts.append((s.adapt_snapshot, snapshot))
    rest = 1 - sum(weight for weight, _ in parts)
    if rest > 0:
        parts.append((rest, fit_anchored(generic, fitted, their, anchor=s.adapt_anchor, steps=s.adapt_steps)))
    adapted = pooled(parts)
    if len(held) and no_better(adapted, generic, predictor.view_mean(images[held]), targets[held]):
        return None
    return adapted


def take_snapshot(predictor: Predictor, task: Task, images: ImageSet) -> None:
    """Carry the snapshot heads along after a task was trained on `images`, and fit that of its own classes."""
    predictor.snapshots.after_task(images)
    if len(task.classes) < 2:
        return
    number = len(predictor.task_map) - 1
    generic = _generic(predictor, number)
    predictor.snapshots.fit(number, task.classes, task.train, generic, anchor=SNAPSHOT_ANCHOR, steps=SNAPSHOT_STEPS)


def _generic(predictor: Predictor, task: int) -> OwnHead:
    head, columns = predictor.model.head, predictor.task_map.columns(task)
    return OwnHead(head.weight[columns].detach().cpu(), head.bias[columns].detach().cpu())


def _views(images: Tensor, count: int, name: str, generator: torch.Generator) -> list[Tensor]:
    """Return images as they are, and `count - 1` times augmented."""
    augment = augmentation(name)
    return [images, *(augment(images, Draws(generator, len(images))) for _ in range(count - 1))]
