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
  tasks one after another, one optimiser for all, eta from a task number that counts from 0, r overwritten with 1.
* `negatives="seen"` and `loss="ce"` are ours; the paper is `own` and `bce`. Both are averaged within each task first.
* The optimiser's state and batch-norm statistics between inner loops: see `meta.inner`; the paper does not say.
* An inner loop without samples leaves its task at the base and counts in the mean.
* `distill` is ours: every inner loop also minimises `distill` times the mean over the whole mini-batch of the
  distillation from the model as it was before the task (Hinton et al., 2015), so that their mean does.
* `balance="logits"` is ours: instead of the mean over tasks, in which an exemplar weighs many times what a new picture
  does, every picture weighs the same, and logits are shifted by the log of their class's count (see `meta.fused`).
* `grow_from` is ours: a task's first epochs see shrunk images. The teacher and all of inference see them whole.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.config import Compute, Seeds
from itaml.data.images import ClassId, ImageSet
from itaml.data.progressive import shrunk, side_at
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.learners.batch import Batch
from itaml.learners.distill import DistillingLearner, distillation
from itaml.learners.itaml_settings import ITAMLSettings
from itaml.learners.optim import make_optimizer
from itaml.meta.batched import can_run_together, mean_together
from itaml.meta.eta import eta
from itaml.meta.fused import decay_own_rows, fused_loss, present_share, shifted_loss
from itaml.meta.inner import InnerLoop, micro_batches
from itaml.meta.outer import meta_step, released_step
from itaml.models.classifier import Classifier
from itaml.storage import State


class ITAML(DistillingLearner):
    """The iTAML learner."""

    Settings: ClassVar[type[ITAMLSettings]] = ITAMLSettings
    settings: ITAMLSettings

    def __init__(
        self, model: Classifier, *, settings: ITAMLSettings, seeds: Seeds, compute: Compute | None = None
    ) -> None:
        super().__init__(model, settings=settings, seeds=seeds, compute=compute)
        if settings.grow_from < 1 and not self.model.takes((model.shape[0], *self._size(0.0))):
            raise SettingsError("grow_from needs a network that takes images of any size: set grow_from=1 for this one")
        self._together = settings.batched and not self.bf16 and can_run_together(self.model)
        if settings.engine == "batched" and not self._together:
            raise SettingsError("engine=batched needs fp32 and a network whose samples do not mix; use engine=loop")

    def check_classes(self, index: int, classes: tuple[ClassId, ...]) -> None:
        """Refuse a head of one class that has nothing to be told from, and a horizon that nobody filled in.

        Raises:
            SettingsError: either of them.
        """
        if self.settings.negatives == "own" and len(classes) == 1:
            raise SettingsError(
                f"task {index} has a single class, and with negatives=own a head of one class has nothing to be "
                "told from; use negatives=seen or larger tasks"
            )
        if self.settings.horizon == "stream":
            raise SettingsError("horizon=stream is for runs; give the number of tasks to come, or horizon=open")

    def begin_task(self, task: Task) -> None:
        """Grow the head, and forget the inner loops' optimiser state."""
        super().begin_task(task)
        self._loop = None

    @property
    def compiles(self) -> bool:
        """Only the fused engine goes through the network as a whole."""
        return self.settings.fused

    def wants_teacher(self) -> bool:
        """Keep the model as it was before the task where there is distillation."""
        return self.settings.distill > 0

    def prepare(self, images: ImageSet) -> None:
        """Count the pictures of each class, and ask the teacher about them if it is asked once."""
        self._counts = torch.bincount(self.table.column_of(images.labels), minlength=len(self.table.classes))
        s = self.settings
        if self.teacher is not None and s.distill_once:
            self._answers = self.taught_all(images, mirrored="flip" in s.augment.split("-"))

    def end_task(self, task: Task) -> None:
        """Let the teacher's answers go, and choose exemplars."""
        self._answers = torch.empty(0)
        super().end_task(task)

    _answers = torch.empty(0)  # the teacher's logits of every picture, where it is asked once
    _loop: InnerLoop | None = None

    def eta(self) -> float:
        """Return eta for the task under way."""
        s, number = self.settings, len(self.table)
        if s.update == "released":
            number -= 1  # the released code counts tasks from 0
        if number == 0:
            return 1.0
        assert s.horizon != "stream", "check_classes refuses it"
        return eta(number, beta=s.beta, horizon=None if s.horizon == "open" else s.horizon)

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one iteration of Algorithm 1."""
        return self._fused_step(batch, optimizer) if self.settings.fused else self._loop_step(batch, optimizer)

    def _fused_step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        s = self.settings
        optimizer.zero_grad()
        logits = self.forward(self._sized(batch.images))
        if s.balance == "logits":
            loss = shifted_loss(logits, batch.targets, self._counts)
        else:
            loss = fused_loss(logits, batch.targets, self.table, loss=s.loss, negatives=s.negatives)
        if self.teacher is not None:
            old = logits[:, : self.teacher.columns]
            loss = loss + s.distill * distillation(old, self._truth(batch), temperature=s.temperature).mean()
        loss.backward()
        if s.weight_decay:
            share = present_share(batch.targets, self.table) if s.balance == "tasks" else 1.0
            for group, decay in zip(optimizer.param_groups, self._decays(), strict=True):
                group["weight_decay"] = share * decay
        if s.negatives == "own":
            decay_own_rows(self.model.head, batch.targets, weight_decay=s.weight_decay)
        self.clip_gradients()
        optimizer.step()  # its learning rate is lr * eta
        return loss.detach()

    def _truth(self, batch: Batch) -> Tensor:
        """Return the teacher's logits for a batch."""
        if not self.settings.distill_once:
            return self.taught(batch.images)
        assert batch.rows is not None, "training knows which picture is which"
        return self._answers[batch.rows].to(self.device)

    def _sized(self, images: Tensor) -> Tensor:
        """Return training images at the size of the epoch under way."""
        s = self.settings
        if s.grow_from == 1 or self.progress is None or (s.grow_in == "first" and len(self.table) > 1):
            return images
        height, width = self._size(self.progress.epoch / self.task_epochs)
        return shrunk(images, height=height, width=width).to(memory_format=self.layout)

    def _size(self, progress: float) -> tuple[int, int]:
        s = self.settings
        height, width = (
            side_at(progress, full=side, start=s.grow_from, until=s.grow_until) for side in self.model.shape[1:]
        )
        return height, width

    def _loop_step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        inner = self._inner_loop(lr=optimizer.param_groups[0]["lr"])
        batches = micro_batches(batch.images, batch.targets, self.table)
        base = params.snapshot(self.model)
        if self.settings.update == "released":
            weights = released_step(base, batches, adapt=inner, eta=self.eta())
        elif self._together:
            weights = params.lerp(base, mean_together(inner, base, batches), self.eta())
        else:
            weights = meta_step(base, batches, adapt=inner, eta=self.eta())
        loss = inner.settle()
        params.restore(self.model, weights)
        return torch.tensor(loss)

    def _inner_loop(self, *, lr: float) -> InnerLoop:
        """Return the task's inner loop, with the learning rate of this step."""
        s = self.settings
        if self._loop is None:
            released = s.update == "released"
            self._loop = InnerLoop(
                self.model,
                make_optimizer=lambda tensors: make_optimizer(s.optimizer, tensors, lr=lr),
                steps=1 if released else s.inner_steps,
                loss=s.loss,
                negatives=s.negatives,
                shared_state=released,
                whole_head=released,
                clip=s.clip,
                autocast=self.autocast,
            )
        self._loop.make_optimizer = lambda tensors: make_optimizer(
            s.optimizer, tensors, lr=lr, momentum=s.momentum, weight_decay=s.weight_decay
        )
        return self._loop

    def rate_scale(self) -> float:
        """Fold eta into the learning rate of the fused step: base - (eta * lr) * mean gradient."""
        return self.eta() if self.settings.fused else 1.0

    def trainable(self) -> list[object]:
        """Return two groups, because with `own` negatives the head's decay is added by hand (see `meta.fused`)."""
        parts = (self.model.backbone, self.model.head)
        return [
            {"params": list(part.parameters()), "weight_decay": decay}
            for part, decay in zip(parts, self._decays(), strict=True)
        ]

    def _decays(self) -> tuple[float, float]:
        s = self.settings
        return s.weight_decay, 0.0 if s.negatives == "own" else s.weight_decay

    def extra_state(self) -> State:
        """Return the inner loops' optimiser state, and the teacher."""
        return {"inner": self._loop.state if self._loop is not None else None, **super().extra_state()}

    def load_extra_state(self, state: State) -> None:
        """Take over the inner loops' optimiser state, and the teacher."""
        super().load_extra_state(state)
        self._loop = None
        if state["inner"] is not None:
            self._inner_loop(lr=self.settings.lr).state = state["inner"]
