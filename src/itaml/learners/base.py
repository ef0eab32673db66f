"""`SgdLearner`: the only loop over epochs and batches, and two-stage inference on what it trained.

A method overrides `begin_task`, `loss`, `step` and `end_task`, and what it keeps besides weights and exemplars goes
into `extra_state`. A regulariser is `loss` and `end_task`; GEM is `step`; iTAML is `step` calling into `meta`.

Decisions: the optimiser is made anew for every task; every random draw comes from a generator that is derived from
(seed, task, epoch), so that a learner restored after any epoch goes on to the same bits.
"""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.augment import recipe
from itaml.data.images import ClassId, ImageSet, join
from itaml.data.loader import iterate
from itaml.data.sampling import balanced_order, union_order
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError, SettingsError, TrainingError
from itaml.events import BatchDone, EpochDone, Listener, TaskStarted, ignore
from itaml.learners import compute as hardware
from itaml.learners.batch import Batch, Progress
from itaml.learners.compiled import CompiledBackbone
from itaml.learners.optim import make_optimizer, optimizer_state, rate_factor, restore_optimizer
from itaml.learners.settings import SgdSettings
from itaml.learners.two_stage import TwoStage
from itaml.memory.store import Memory
from itaml.meta.inner import normalized_alone
from itaml.meta.loss import sample_losses
from itaml.models.classifier import Classifier
from itaml.models.state import classifier_state, restore_classifier
from itaml.storage import State


class SgdLearner(TwoStage):
    """A learner trained by stochastic gradient descent.

    Args:
        model: the network; it is moved to the device and trained in place.
        settings: of the class `Settings` of the learner.
        seeds: a seed for each thing that is drawn.
        compute: device, number format, and whether to compile.
    """

    Settings: ClassVar[type[SgdSettings]] = SgdSettings
    uses_memory: ClassVar[bool] = True
    read_in_training: ClassVar[frozenset[str]] = frozenset()  # settings of inference that training depends on as well

    def __init__(
        self, model: Classifier, *, settings: SgdSettings, seeds: Seeds, compute: Compute | None = None
    ) -> None:
        compute = compute or Compute()
        recipe(settings.augment)  # an unknown name is an error before any training
        self.device = hardware.pick_device(compute)
        layout = torch.channels_last if hardware.has_convolutions(model) else torch.preserve_format
        super().__init__(hardware.place(model, self.device, layout), settings=settings, seeds=seeds)
        self.layout = layout
        self.bf16 = hardware.use_bf16(compute, model, self.device)
        self.autocast = hardware.autocast(self.device, bf16=self.bf16)
        self._compiled = self._compile() if compute.compile else None
        budget = settings.memory if self.uses_memory else 0
        self.memory = Memory(budget=budget, selection=settings.selection)
        self.listen: Listener = ignore
        self.progress: Progress | None = None
        self._optimizer: Optimizer | None = None  # of the task under way
        self._saved_optimizer: State | None = None  # of a restored task, until it goes on
        for name in (settings.optimizer, settings.adapt_optimizer):
            make_optimizer(name, [torch.zeros(1)], lr=settings.lr)

    def _compile(self) -> CompiledBackbone:
        if not self.compiles:
            raise SettingsError("compile is for methods that train by one pass through the whole network; leave it out")
        return CompiledBackbone(self.model.backbone, batch_size=self.settings.batch_size, device=self.device)

    # What a method overrides.

    @property
    def compiles(self) -> bool:
        """Whether training goes through `forward`, which torch.compile can translate."""
        return True

    def begin_task(self, task: Task) -> None:
        """Prepare for a new task, once, before its first epoch: by default, normalisation and the new head rows."""
        if not len(self.table):
            self.model.fit_normalization(task.train)
        if task.classes:
            self.model.head.grow(task.classes, generator=seeding.generator(self.seeds.init, "head", len(self.table)))

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch: by default, the mean over samples."""
        return self.sample_losses(self.forward(batch.images), batch).mean()

    def step(self, batch: Batch, optimizer: Optimizer) -> Tensor:
        """Take one training step and return its loss."""
        optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.clip_gradients()
        optimizer.step()
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Finish a task: by default, choose its exemplars."""
        if self.memory.budget:
            generator = seeding.generator(self.seeds.memory, "memory", task.index)
            self.memory.add(task.train, self.table.classes, generator=generator, features=self.features)

    def training_set(self, task: Task) -> ImageSet:
        """Return what a task is trained on: D(t) united with M(t-1)."""
        exemplars = self.memory.exemplars()
        return task.train if exemplars is None else join([task.train, exemplars])

    def prepare(self, images: ImageSet) -> None:
        """Look at what a task is trained on, before its first epoch and again where a restored task goes on."""

    def optimizer(self) -> Optimizer:
        """Return the optimiser of a task."""
        s = self.settings
        return make_optimizer(s.optimizer, self.trainable(), lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay)

    def trainable(self) -> list[Any]:
        """Return the parameters, or groups of them, that a task trains; a group may name a `scale` of its rate."""
        return list(self.model.parameters())

    def rate_scale(self) -> float:
        """Return a factor on the learning rate beside the schedule."""
        return 1.0

    def extra_state(self) -> State:
        """Return what the method keeps besides the model and the exemplars."""
        return {}

    def load_extra_state(self, state: State) -> None:
        """Take over what `extra_state` returned."""

    # What all methods share.

    def learn(self, task: Task) -> None:
        """Learn a task, or go on with it where a restored learner was.

        Raises:
            DataError: the task does not fit the model or what was learned before.
            TrainingError: the loss is not a number any more.
        """
        self.check_task(task)
        self.forget_adaptations()
        if self.progress is None:
            self.begin_task(task)
            self.progress = Progress(task.index, 0)
        images = self.training_set(task)
        self.prepare(images)
        optimizer = self._task_optimizer()
        started = TaskStarted(
            task.index, tuple(map(str, task.classes)), len(images), self.progress.epoch, self.task_epochs
        )
        self.listen(started)
        for epoch in range(self.progress.epoch, self.task_epochs):
            done = self._epoch(task, images, epoch, optimizer)
            self.progress = Progress(task.index, epoch + 1)
            self.listen(done)
        self.model.eval()
        self._check_finite(task)
        self.end_task(task)
        self.progress, self._optimizer = None, None
        self.forget_adaptations()

    @property
    def task_epochs(self) -> int:
        """How many epochs the task under way takes."""
        s = self.settings
        return s.first_epochs if s.first_epochs and len(self.table) <= 1 else s.epochs

    def _task_optimizer(self) -> Optimizer:
        """Return the optimiser of the task under way, with the state it had where the task was left."""
        if self._optimizer is None:
            self._optimizer = self.optimizer()
            if self._saved_optimizer is not None:
                restore_optimizer(self._optimizer, self._saved_optimizer)
        self._saved_optimizer = None
        return self._optimizer

    def check_task(self, task: Task) -> None:
        """Refuse a task that cannot be learned, before anything is changed."""
        if not len(task.train):
            raise DataError(f"task {task.index} has no training images")
        if task.train.shape != self.model.shape:
            self.model.check(torch.empty(0, *task.train.shape))
        if self.progress is not None:
            if self.progress.task != task.index:
                raise DataError(f"task {self.progress.task} is under way and must be finished before task {task.index}")
            return
        self.check_classes(task.index, task.classes)
        table = self.table.grown(task.classes) if task.classes else self.table
        table.column_of(task.train.labels)  # every label must belong to a class that is or becomes known
        self.memory.check_room(len(table.classes))

    def check_classes(self, index: int, classes: tuple[ClassId, ...]) -> None:
        """Refuse a task of these classes if the settings make it impossible; a run asks before any training."""

    def _epoch(self, task: Task, images: ImageSet, epoch: int, optimizer: Optimizer) -> EpochDone:
        s, epochs, path = self.settings, self.task_epochs, (task.index, epoch)
        augment = recipe(s.augment)
        order = self._order(images, seeding.generator(self.seeds.batches, "batches", *path))
        noise = seeding.generator(self.seeds.augment, "augment", *path)
        self.model.train()
        start, total, steps, done = time.perf_counter(), torch.zeros(()), 0, 0
        with seeding.seeded(self.seeds.augment, "dropout", *path):
            for pixels, rows in iterate(images.numbered(), order, batch_size=s.batch_size):
                factor = rate_factor(s, epoch + done / max(len(order), 1), epochs=epochs)
                for group in optimizer.param_groups:
                    group["lr"] = s.lr * factor * self.rate_scale() * group.get("scale", 1.0)
                batch = self.make_batch(augment(pixels, noise), images.labels[rows], rows)
                loss = self.step(batch, optimizer)
                total, steps, done = total + loss.cpu(), steps + 1, done + len(rows)
                seconds = time.perf_counter() - start
                self.listen(BatchDone(task.index, epoch, epochs, done, len(order), seconds))
        mean = float(total / max(steps, 1))
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss became {mean} in task {task.index}, epoch {epoch + 1}: try a smaller lr (it is {s.lr})"
            )
        return EpochDone(task.index, epoch + 1, epochs, mean, done, time.perf_counter() - start, s.lr * factor)

    def _check_finite(self, task: Task) -> None:
        """Refuse weights that the very last steps have ruined, which no loss has shown yet."""
        if not all(bool(value.isfinite().all()) for value in self.model.parameters()):
            raise TrainingError(
                f"the weights are not finite after task {task.index}: try a smaller lr (it is {self.settings.lr})"
            )

    def _order(self, images: ImageSet, generator: torch.Generator) -> Tensor:
        if self.settings.sampling == "balanced" and len(self.table) > 1:
            return balanced_order(self.table.task_of(images.labels), generator=generator)
        return union_order(len(images), generator=generator)

    def make_batch(self, pixels: Tensor, labels: Tensor, rows: Tensor | None = None) -> Batch:
        """Put pixels on the device, and find each label's column and task."""
        self.model.check(pixels)
        columns = self.table.column_of(labels)
        tasks = self.table.task_of_column[columns]
        images = pixels.to(self.device, memory_format=self.layout)
        return Batch(images, columns.to(self.device), tasks.to(self.device), rows)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, columns) in float32, computed in the chosen number format."""
        with normalized_alone(self.model, len(images)), self.autocast():
            logits: Tensor = self.model.logits(images, through=self._compiled)
        return logits.float() if logits.dtype == torch.bfloat16 else logits

    def sample_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return each sample's classification loss (n,), as the settings say."""
        return sample_losses(
            logits, batch.targets, self.table, loss=self.settings.loss, negatives=self.settings.negatives
        )

    def clip_gradients(self) -> None:
        """Limit the norm of the gradient, if the settings do."""
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)

    def state_dict(self) -> State:
        """Return everything needed to go on to the same bits, also in the middle of a task."""
        progress = None
        if self.progress is not None:
            saved = self._saved_optimizer if self._optimizer is None else optimizer_state(self._optimizer)
            progress = {"task": self.progress.task, "epoch": self.progress.epoch, "optimizer": saved}
        return {
            "learner": type(self).__name__,
            **classifier_state(self.model),
            "memory": self.memory.state_dict(),
            "progress": progress,
            "extra": self.extra_state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over a state of the same kind of learner.

        Raises:
            CheckpointError: it is of another kind, or of another network.
        """
        if state.get("learner") != type(self).__name__:
            raise CheckpointError(f"this state is of a {state.get('learner')}, not of a {type(self).__name__}")
        restore_classifier(self.model, state)
        self.memory.load_state_dict(state["memory"])
        progress = state["progress"]
        self.progress = Progress(progress["task"], progress["epoch"]) if progress else None
        self._saved_optimizer, self._optimizer = progress["optimizer"] if progress else None, None
        self.load_extra_state(state["extra"])
        self.model.eval()
        self.forget_adaptations()
