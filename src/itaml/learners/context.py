"""`Context`: what a method works with. The network, the exemplars, and how to compute."""

from __future__ import annotations

import torch
from torch import Tensor

from itaml import distributed
from itaml.config import Compute, Seeds
from itaml.data.augmentations import augmentation
from itaml.errors import SettingsError
from itaml.learners import compute as hardware
from itaml.learners.api import Traits
from itaml.learners.batch import Batch, Progress
from itaml.learners.compiled import CompiledBackbone
from itaml.learners.settings import TrainingSettings
from itaml.memory.buffer import Memory
from itaml.memory.byte_memory import ByteMemory
from itaml.models.batch_norm import single_image_batch_norm
from itaml.models.classifier import Classifier
from itaml.models.sharded_layers import in_shares
from itaml.models.task_map import TaskMap
from itaml.optimizers import make_optimizer
from itaml.shares import Share

EVERYTHING = 2**48  # images; no data set has more


class Context:
    """The network on its device, its exemplars, and the settings of one learner.

    Args:
        model: the network; it is moved to the device and trained in place.
        settings: of the method.
        seeds: a seed for each thing that is drawn.
        compute: device, precision, and whether to compile.
        traits: of the method.

    Raises:
        SettingsError: the settings name something that does not exist, or that this machine or method cannot do.
    """

    def __init__(
        self,
        model: Classifier,
        *,
        settings: TrainingSettings,
        seeds: Seeds,
        compute: Compute | None = None,
        traits: Traits,
    ) -> None:
        compute = compute or Compute()
        for name in (settings.augment, settings.strong_augment, settings.adapt_augment):
            augmentation(name)  # an unknown name is an error before any training
        for name in (settings.optimizer, settings.adapt_optimizer):
            make_optimizer(name, [torch.zeros(1)], lr=settings.lr)
        self.settings, self.seeds = settings, seeds
        self.device = hardware.pick_device(compute)
        self.layout = torch.channels_last if hardware.has_convolutions(model) else torch.preserve_format
        self.model = hardware.place(model, self.device, self.layout)
        self.bf16 = distributed.on_main(lambda: hardware.use_bf16(compute, model, self.device))
        self.autocast = hardware.autocast(self.device, bf16=self.bf16)
        self.compiled = self._compile(traits) if compute.compile else None
        self.memory = _memory(settings, traits)
        self.progress: Progress | None = None  # of the task under way

    def _compile(self, traits: Traits) -> CompiledBackbone:
        if not traits.supports_compile:
            raise SettingsError("compile needs a method that trains by one pass through the network; leave it out")
        if distributed.size() > 1:
            raise SettingsError("compile is for one process; leave it out under torchrun")
        return CompiledBackbone(self.model.backbone, batch_size=self.settings.batch_size, device=self.device)

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""
        return self.model.task_map

    @property
    def task_epochs(self) -> int:
        """How many epochs the task under way takes."""
        s = self.settings
        return s.first_epochs if s.first_epochs and len(self.task_map) <= 1 else s.epochs

    def make_batch(
        self, pixels: Tensor, labels: Tensor, rows: Tensor | None = None, share: Share | None = None
    ) -> Batch:
        """Put pixels on the device, and look up each label's column and task.

        Args:
            pixels: of all samples, or of this process's share of them.
            labels: of all samples (n,).
            rows: positions of all samples in what the task is trained on (n,).
            share: which samples the pixels are of; None is all.
        """
        self.model.check(pixels)
        columns = self.task_map.column_of(labels)
        tasks = self.task_map.task_of_column[columns]
        present = len(tasks.unique())
        images, columns, tasks = self.placed(pixels), columns.to(self.device), tasks.to(self.device)
        return Batch(images, columns, tasks, rows, present=present, share=share)

    def placed(self, images: Tensor) -> Tensor:
        """Return images on the device, in the memory layout of the network."""
        return images.to(self.device, memory_format=self.layout)

    def forward(self, images: Tensor, share: Share | None = None) -> Tensor:
        """Return logits (n, columns) in float32, computed in the chosen precision (see `in_shares` for arguments)."""

        def logits(part: Tensor) -> Tensor:
            with self.autocast():
                found: Tensor = self.model.logits(part, through=self.compiled)
            return found.float() if found.dtype == torch.bfloat16 else found

        with single_image_batch_norm(self.model, len(images) if share is None else share.total):
            return in_shares(logits, images, share)


def _memory(settings: TrainingSettings, traits: Traits) -> Memory:
    if traits.memory == "everything":
        return Memory(budget=EVERYTHING, selection="first")
    if traits.uses_memory and settings.memory_bytes:
        return ByteMemory(budget=settings.memory_bytes, selection=settings.selection)
    return Memory(budget=settings.memory if traits.uses_memory else 0, selection=settings.selection)
