"""`Trainer`: the only loop over epochs and batches.

It owns the optimizer, the schedule and the progress of the task under way. Every task gets a new optimizer,
and every random draw comes from a generator derived from (seed, task, epoch), so that a learner restored after any
epoch continues to the same bits.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml import distributed, seeding
from itaml.data.augmentations import Draws
from itaml.data.images import ImageSet
from itaml.data.loader import iterate_shares
from itaml.data.sampling import balanced_order, union_order
from itaml.data.stream import Task
from itaml.errors import TrainingError
from itaml.events import BatchDone, Callback, EpochDone, TaskStarted
from itaml.learners.batch import Progress
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.schedule import lr_factor
from itaml.models.batch_norm import freeze_statistics
from itaml.optimizers import make_optimizer, optimizer_state, restore_optimizer
from itaml.shares import Share
from itaml.storage import State


class Trainer:
    """Trains a method's network on one task after another."""

    def __init__(self, context: Context, method: Method, recipe: Recipe) -> None:
        self.context, self.method, self.recipe = context, method, recipe
        self._optimizer: Optimizer | None = None  # of the task under way
        self._saved_optimizer: State | None = None  # of a restored task, until it continues

    def fit(self, task: Task, images: ImageSet, callback: Callback, *, new_images: int) -> None:
        """Train on a task's images from the epoch reached so far to the last one.

        Args:
            task: the task.
            images: its images, followed by the exemplars.
            callback: receives the events of training.
            new_images: how many of the images are the task's own.

        Raises:
            TrainingError: the loss or the weights are not finite any more.
        """
        c = self.context
        assert c.progress is not None, "a task has begun"
        self.recipe.before_training(images, new_images=new_images)
        optimizer = self.optimizer()
        classes = tuple(map(str, task.classes))
        callback(TaskStarted(task.index, classes, len(images), c.progress.epoch, c.task_epochs))
        for epoch in range(c.progress.epoch, c.task_epochs):
            done = self._epoch(task, images, epoch, optimizer, callback)
            c.progress = Progress(task.index, epoch + 1)
            callback(done)
        c.model.eval()
        self.recipe.end_training()
        self._check_finite(task)

    def finish(self) -> None:
        """Forget the progress and the optimizer of a task that is over."""
        self.context.progress, self._optimizer = None, None

    def optimizer(self) -> Optimizer:
        """Return the optimizer of the task under way, with the state it had where the task was left."""
        if self._optimizer is None:
            s = self.context.settings
            groups = self._with_backbone_lr(self.method.param_groups())
            self._optimizer = make_optimizer(
                s.optimizer, groups, lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay
            )
            if self._saved_optimizer is not None:
                restore_optimizer(self._optimizer, self._saved_optimizer)
        self._saved_optimizer = None
        return self._optimizer

    def _with_backbone_lr(self, groups: list[Any]) -> list[Any]:
        """Give the parameters of a tuned backbone a separate learning rate, where the settings name one."""
        s = self.context.settings
        if s.backbone_lr is None:
            return groups
        whole = [group if isinstance(group, dict) else {"params": [group]} for group in groups]
        backbone = {id(parameter) for parameter in self.context.model.backbone.parameters()}
        split: list[Any] = []
        for group in whole:
            inside = [p for p in group["params"] if id(p) in backbone]
            outside = [p for p in group["params"] if id(p) not in backbone]
            split += [{**group, "params": inside, "scale": s.backbone_lr / s.lr}] if inside else []
            split += [{**group, "params": outside}] if outside else []
        return split

    def _epoch(self, task: Task, images: ImageSet, epoch: int, optimizer: Optimizer, callback: Callback) -> EpochDone:
        c, s, path = self.context, self.context.settings, (task.index, epoch)
        order = self._order(images, seeding.generator(c.seeds.batches, "batches", *path))
        divide = partial(self._divide, images.labels)
        read = partial(iterate_shares, divide=divide, by_task=self.method.shards_tasks)
        noise = seeding.generator(c.seeds.augment, "augment", *path)
        c.model.train()
        if s.tune == "last":
            freeze_statistics(c.model)
        start, total, steps, done, factor = time.perf_counter(), torch.zeros((), device=c.device), 0, 0, 0.0
        with seeding.seeded(c.seeds.augment, "dropout", *path):
            for pixels, rows, share in read(images, order, batch_size=s.batch_size):
                factor = lr_factor(s, epoch + done / max(len(order), 1), epochs=c.task_epochs)
                for group in optimizer.param_groups:
                    group["lr"] = s.lr * factor * group.get("scale", 1.0)
                draws = Draws(noise, len(rows), share)
                pixels = self.recipe.augment(pixels, rows, draws)  # noqa: PLW2901
                batch = c.make_batch(pixels, images.labels[rows], rows, share)
                self.recipe.mix(batch, draws)
                self.recipe.resize(batch)
                loss = self.method.step(batch, optimizer)
                self.recipe.after_step()
                total, steps, done = total + loss, steps + 1, done + len(rows)
                callback(BatchDone(task.index, epoch, c.task_epochs, done, len(order), time.perf_counter() - start))
        seconds = time.perf_counter() - start
        mean = self._finite_mean(total, steps, task, epoch)
        return EpochDone(task.index, epoch + 1, c.task_epochs, mean, done, seconds, s.lr * factor)

    def _divide(self, labels: Tensor, rows: Tensor) -> Share:
        """Divide a mini-batch among the processes of the run: by samples, or by tasks where inner loops need them."""
        if self.method.shards_tasks:
            found = distributed.share_of_tasks(self.context.task_map.task_of(labels[rows]))
        else:
            found = distributed.share_of(len(rows))
        assert found is not None, "there are several processes"
        return found

    def _finite_mean(self, total: Tensor, steps: int, task: Task, epoch: int) -> float:
        if not steps:
            raise TrainingError(f"none of the images of task {task.index + 1} can be read")
        mean = float(total / steps)
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss became {mean} in task {task.index}, epoch {epoch + 1}: "
                f"try a smaller lr (it is {self.context.settings.lr})"
            )
        return mean

    def _check_finite(self, task: Task) -> None:
        """Refuse weights that the very last steps have ruined, which no loss has shown yet."""
        if not all(bool(value.isfinite().all()) for value in self.context.model.parameters()):
            lr = self.context.settings.lr
            raise TrainingError(f"the weights are not finite after task {task.index}: try a smaller lr (it is {lr})")

    def _order(self, images: ImageSet, generator: torch.Generator) -> Tensor:
        task_map = self.context.task_map
        if self.context.settings.sampling == "balanced" and len(task_map) > 1:
            return balanced_order(task_map.task_of(images.labels), generator=generator)
        return union_order(len(images), generator=generator)

    def state_dict(self) -> State | None:
        """Return the progress of the task under way; None between tasks."""
        progress = self.context.progress
        if progress is None:
            return None
        saved = self._saved_optimizer if self._optimizer is None else optimizer_state(self._optimizer)
        state: State = {"task": progress.task, "epoch": progress.epoch, "optimizer": saved}
        return {**state, "average": self.recipe.average} if self.recipe.average else state

    def load_state_dict(self, state: State | None) -> None:
        """Restore what `state_dict` returned."""
        self.context.progress = Progress(state["task"], state["epoch"]) if state else None
        self._saved_optimizer, self._optimizer = state["optimizer"] if state else None, None
        average = state.get("average", {}) if state else {}
        self.recipe.average = {name: value.to(self.context.device) for name, value in average.items()}
