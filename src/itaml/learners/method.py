"""`Method`: what distinguishes one way of learning from another, as hooks that the trainer calls.

| hook                     | when it is called                               | default                                |
|--------------------------|-------------------------------------------------|----------------------------------------|
| `begin_task(task)`       | once per task, after the head has grown         | nothing                                |
| `training_data(task)`    | before training and before exemplars are chosen | all training images of the task        |
| `param_groups()`         | when the optimizer of a task is made            | all parameters of the classifier       |
| `networks()`             | at every step that clips gradients              | the classifier                         |
| `loss(batch)`            | at every step                                   | the mean classification loss           |
| `step(batch, optimizer)` | at every step                                   | a gradient step on `loss` and recipe   |
| `end_task(task)`         | once per task, after its exemplars are chosen   | nothing                                |
| `class_scores(images)`   | at inference                                    | the logits of the classifier           |

All state is created in `__init__`. What has to be saved besides weights and exemplars is named in `saved`: each is an
attribute that is a plain value, tensors in dictionaries or lists, or an object with `state_dict` and `load_state_dict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from itaml.config import Compute, Seeds
from itaml.data.images import ImageSet, Shape
from itaml.data.stream import Task
from itaml.data_parallel import backward
from itaml.inference.predictor import Predictor
from itaml.learners.api import Learner, Traits
from itaml.learners.batch import Batch
from itaml.learners.context import Context
from itaml.learners.recipe import Recipe
from itaml.learners.settings import TrainingSettings
from itaml.models.task_map import TaskMap
from itaml.optimizers import gradient_step
from itaml.storage import State


class Method:
    """Base of all methods that are trained by gradient steps.

    Args:
        context: the network, the exemplars and how to compute.
        recipe: ingredients that the trainer adds.
        predictor: two-stage inference on the same network.
    """

    Settings: ClassVar[type[TrainingSettings]] = TrainingSettings
    traits: ClassVar[Traits] = Traits()
    saved: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        self.context, self.recipe, self.predictor = context, recipe, predictor
        self.settings = context.settings
        self.shards_tasks = False  # several processes: each gets all samples of its tasks, instead of any samples
        self.model, self.memory, self.seeds = context.model, context.memory, context.seeds

    @classmethod
    def from_settings(cls, settings: Any, *, shape: Shape, seeds: Seeds, compute: Compute | None = None) -> Learner:
        """Return a learner for images of `shape` that uses this method (see `LearnerFactory`)."""
        from itaml.learners.gradient_factory import gradient_learner  # noqa: PLC0415 (the learner is made of methods)

        return gradient_learner(cls, settings, shape=shape, seeds=seeds, compute=compute)

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""
        return self.model.task_map

    @property
    def can_remove_classes(self) -> bool:
        """Whether classes can be removed: by default unless something is saved, which may belong to the columns."""
        trait = self.traits.can_remove_classes
        return not self.saved if trait is None else trait

    # The hooks.

    def begin_task(self, task: Task) -> None:
        """Prepare for a new task."""

    def training_data(self, task: Task) -> ImageSet:
        """Return the images of a task to train on and to choose exemplars from, the same at every call."""
        return task.train

    def param_groups(self) -> list[Any]:
        """Return the parameters, or groups of them, that a task trains; a group may name a `scale` of its rate."""
        return list(self.model.parameters())

    def networks(self) -> list[nn.Module]:
        """Return the networks that are trained; the gradients of each are clipped by themselves."""
        return [self.model]

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        return self.recipe.classification_loss(self.logits(batch), batch)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one training step and return its loss."""
        return self.gradient_step(optimizer, lambda: self.backward(self.total_loss(batch)))

    def end_task(self, task: Task) -> None:
        """Finish a task."""

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the score of each class seen (n, columns), on the CPU."""
        return self.predictor.model_scores(images)

    # What methods are written with.

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits of a batch (n, columns), computed once."""
        if batch.logits is None:
            batch.logits = self.context.forward(batch.images, batch.share)
        return batch.logits

    def total_loss(self, batch: Batch) -> Tensor:
        """Return the method's loss and what the recipe adds to it."""
        loss = self.loss(batch)
        if self.recipe.teacher and self.settings.distill:
            loss = loss + self.recipe.distillation(self.logits(batch), batch)
        return loss

    def backward(self, loss: Tensor) -> Tensor:
        """Compute the gradients of a loss of the whole mini-batch, over all processes of the run; return the loss."""
        return backward(loss, [parameter for network in self.networks() for parameter in network.parameters()])

    def gradient_step(self, optimizer: Optimizer, compute_gradients: Callable[[], Tensor]) -> Tensor:
        """Take a step with gradients computed by a function that returns the loss; return the loss."""
        clipped = [network.parameters() for network in self.networks()] if self.settings.clip else ()
        return gradient_step(optimizer, compute_gradients, clip=self.settings.clip, clipped=clipped)

    def state_dict(self) -> State:
        """Return what the method keeps besides the model and the exemplars, copied."""
        return {name: _plain(getattr(self, name)) for name in self.saved}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        for name in self.saved:
            value = getattr(self, name)
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(state[name])
            else:
                setattr(self, name, _on_device(state[name], self.context.device))


def _plain(value: Any) -> Any:
    """Return a copy of a value made of numbers, text, tensors, lists and dictionaries."""
    if hasattr(value, "state_dict"):
        value = value.state_dict()
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _on_device(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    if isinstance(value, Mapping):
        return {key: _on_device(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [_on_device(item, device) for item in value]
    return value
