"""iTAML: incremental task-agnostic meta-learning (Rajasegaran, Khan, Hayat, Khan and Shah, CVPR 2020).

| symbol | here                                                   |
|--------|--------------------------------------------------------|
| Phi    | the classifier's weights: theta (backbone), phi (head) |
| t, T   | tasks seen, with the one under way; `horizon`          |
| r      | `inner_steps`                                          |
| beta   | `beta`                                                 |
| eta    | `meta.eta`                                             |
| b, Q   | `adapt_steps`, `adapt_batch`                           |

Differences from the paper:

* `update="paper"` is Algorithm 1; `update="released"` is what the authors' released code computes, for comparison:
  tasks one after another, one optimizer for all, eta from a task number that counts from 0, r overwritten with 1.
* `negatives="seen"` and `loss="ce"` are ours; the paper is `own` and `bce`. Both are averaged within each task first.
* The optimizer's state and batch-norm statistics between inner loops: see `meta.inner_loop`; the paper does not say.
* An inner loop without samples leaves its task at the base and counts in the mean.
* With `class_balancing="logits"` (see `learners.recipe`) every image weighs the same, instead of the mean over tasks,
  in which an exemplar weighs many times what a new image does.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.learners.recipe import Recipe
from itaml.meta.engines import inner_loop, meta_step_of
from itaml.meta.engines.fused import apply_weight_decay, fused_loss
from itaml.meta.eta import eta
from itaml.meta.inner_loop import micro_batches
from itaml.optimizers import make_optimizer


class ITAML(Method):
    """Algorithm 1: inner loops from a common base, their mean, and an interpolation by eta."""

    Settings: ClassVar[type[ITAMLSettings]] = ITAMLSettings
    settings: ITAMLSettings
    traits: ClassVar[Traits] = Traits(can_remove_classes=True)  # what is saved starts again in every task
    saved: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        s = self.settings
        if s.horizon == "stream":
            raise SettingsError("horizon=stream is for runs; give the number of tasks to come, or horizon=open")
        if context.compiled and not s.fused:
            raise SettingsError("compile needs engine=fused; leave it out for other engines")
        self.shards_tasks = not s.fused
        self.meta_step = meta_step_of(s.engine, self.model, update=s.update, batched=s.batched and not context.bf16)
        self.inner = inner_loop(
            self.model, s, make_optimizer=partial(self._optimizer, lr=s.lr), autocast=context.autocast
        )

    def begin_task(self, task: Task) -> None:
        """Forget the optimizer state of the inner loops."""
        self.inner.reset()

    def eta(self) -> float:
        """Return eta for the task under way."""
        number = len(self.task_map) - (self.settings.update == "released")  # the released code counts tasks from 0
        horizon = self.settings.horizon
        return eta(number, beta=self.settings.beta, horizon=horizon if isinstance(horizon, int) else None)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one iteration of Algorithm 1."""
        if self.settings.fused:
            return self._fused_step(batch, optimizer)
        self.inner.make_optimizer = partial(self._optimizer, lr=optimizer.param_groups[0]["lr"])
        base = params.snapshot(self.model)  # Phi_base
        batches = micro_batches(batch.images, batch.own_targets(), self.task_map)  # line 8: B_mu^1 .. B_mu^t
        weights = self.meta_step(base, batches, adapt=self.inner, eta=self.eta())  # lines 4 to 14
        params.restore(self.model, weights)
        return self.inner.finish_iteration()

    def _fused_step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take the same iteration in one pass: at r = 1, base - (eta * lr) * mean of the tasks' gradients (Lemma 2)."""
        s = self.settings
        for group in optimizer.param_groups:
            group["lr"] *= self.eta()

        def compute_gradients() -> Tensor:
            loss = self.backward(self.total_loss(batch))
            if s.class_balancing == "tasks":
                head, decay = self.model.head, s.weight_decay
                share = batch.present_tasks() / len(self.task_map)
                apply_weight_decay(optimizer, head, batch.targets, decay=decay, negatives=s.negatives, share=share)
            return loss

        return self.gradient_step(optimizer, compute_gradients)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss whose gradient is the mean of the tasks' own gradients."""
        s = self.settings
        if s.class_balancing == "logits":
            return super().loss(batch)
        return fused_loss(self.logits(batch), batch.targets, self.task_map, loss=s.loss, negatives=s.negatives)

    def param_groups(self) -> list[Any]:
        """Return the backbone and the head, whose weight decay may differ."""
        return [{"params": list(part.parameters())} for part in (self.model.backbone, self.model.head)]

    def _optimizer(self, tensors: list[Any], *, lr: float) -> Optimizer:
        s = self.settings
        return make_optimizer(s.optimizer, tensors, lr=lr, momentum=s.momentum, weight_decay=s.weight_decay)
