"""`Recipe`: ingredients of training that any method may use, switched on by settings.

| ingredient            | settings                             | what it does |
|-----------------------|--------------------------------------|-----------------------------------------------------------|
| augmentation          | `augment`                            | random crops, flips, ... of training images |
| strong augmentation   | `strong_augment`, `strong_share`, `strong_exemplar_share`, `strong_until` | then a stronger one, of a share of the new images and of the exemplars, up to a share of a task's epochs |
| rehearsal CutMix      | `rehearsal_cutmix`                   | a patch of an exemplar in a new image, labels by area (see `data.rehearsal_cutmix`) |
| distillation          | `distill`, `distill_growth`, `temperature`, `cache_teacher_logits` | adds `distill` times the distillation from the model before the task (Hinton et al., 2015) |
| class balancing       | `class_balancing`, `balance_strength`        | `logits`: every image weighs the same, and logits are shifted by the log of their class's count of images (balanced softmax, Ren et al., NeurIPS 2020) |
| progressive resizing  | `progressive_resize_from`, `progressive_resize_until`, `progressive_resize_in` | a task's first epochs use smaller images; the teacher and inference see them in full size |
| EMA                   | `ema`                                | a task ends with an exponential moving average of the weights of its steps |
| test-time augmentation | `flip_tta`, `shift_tta`                | see `inference.predictor` |
"""  # noqa: E501 (a table)

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from itaml import distributed, params
from itaml.data.augmentations import Draws, augmentation
from itaml.data.images import ImageSet
from itaml.data.progressive_resize import downscale, side_at_progress
from itaml.data.rehearsal_cutmix import paste_exemplars
from itaml.errors import SettingsError
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.teacher import Teacher, distillation
from itaml.learners.context import Context
from itaml.losses import sample_losses, shift_logits
from itaml.params import Weights


class Recipe:
    """What is added to a method's own training.

    Raises:
        SettingsError: an ingredient cannot be used with this method or network.
    """

    def __init__(self, context: Context, traits: Traits) -> None:
        s = context.settings
        self.context = context
        self.teacher = Teacher(context)
        self.keeps_teacher = traits.needs_teacher or s.distill > 0
        self.average: Weights = {}  # of the steps of the task under way, where `ema` is on
        self._counts = torch.zeros(0, dtype=torch.int64)  # training images of each column's class
        self._new_images = 0  # how many of the training images are new; they come before the exemplars
        self._teacher_logits = torch.empty(0)  # of every training image, where they are computed once
        if not traits.supports_recipe and not s.plain_loss:
            raise SettingsError(
                "this method computes its own loss: set distill=0, class_balancing=tasks, rehearsal_cutmix=0 and "
                "progressive_resize_from=1"
            )
        if s.rehearsal_cutmix and not (traits.rehearses and traits.uses_memory and s.memory):
            raise SettingsError(
                "this method rehearses no exemplars, of which rehearsal_cutmix pastes patches: set it to 0"
            )
        if s.rehearsal_cutmix and distributed.size() > 1:
            raise SettingsError("rehearsal_cutmix pastes within a whole mini-batch: leave out torchrun, or set it to 0")
        if s.progressive_resize_from < 1 and not context.model.takes((context.model.shape[0], *self._size(0.0))):
            raise SettingsError(
                "progressive_resize_from needs a network that takes images of any size: set "
                "progressive_resize_from=1 for this one"
            )

    def begin_task(self) -> None:
        """Keep the classifier as it is before the task, from the second task on."""
        self.average = {}
        self.teacher.clear()
        if len(self.context.task_map) and self.keeps_teacher:
            self.teacher.copy(self.context.model)

    def before_training(self, images: ImageSet, *, new_images: int) -> None:
        """Count the images of each class and compute the teacher's logits; at every start of training on a task.

        Args:
            images: the new images of the task, followed by the exemplars.
            new_images: how many are new.
        """
        task_map, s = self.context.task_map, self.context.settings
        self._new_images = new_images
        self._counts = torch.bincount(task_map.column_of(images.labels), minlength=len(task_map.classes))
        if self.teacher and s.cache_teacher_logits:
            self._teacher_logits = self.teacher.all_logits(images, flip="flip" in s.augment.split("-"))

    def augment(self, pixels: Tensor, rows: Tensor, draws: Draws) -> Tensor:
        """Change training images at random.

        Args:
            pixels: the images of this process (k, c, h, w).
            rows: positions of the whole mini-batch in what the task is trained on (n,).
            draws: random numbers for the mini-batch.
        """
        s = self.context.settings
        pixels = augmentation(s.augment)(pixels, draws)
        if s.strong_augment == "none" or self._finishing():
            return pixels
        changed = augmentation(s.strong_augment)(pixels, draws)
        new = draws.here(rows) < self._new_images
        share = torch.where(new, s.strong_share, s.strong_exemplar_share)
        keep = (draws.uniform() >= share).to(pixels.device)
        return torch.where(keep[:, None, None, None], pixels, changed)

    def mix(self, batch: Batch, draws: Draws) -> None:
        """Paste patches of exemplars into the new images of a batch, which is all in this process."""
        s = self.context.settings
        if not s.rehearsal_cutmix or self._finishing():
            return
        assert batch.rows is not None, "batches of training know their rows"
        new = batch.rows < self._new_images
        batch.images, patches = paste_exemplars(batch.images, new, draws, probability=s.rehearsal_cutmix)
        if patches is not None:
            batch.patch_targets = batch.targets[patches.sources.to(batch.targets.device)]
            batch.patch_shares = patches.shares.to(batch.targets.device)

    def _finishing(self) -> bool:
        """Whether a task is in its last epochs, without strong changes of images."""
        c = self.context
        assert c.progress is not None, "a task has begun"
        return c.progress.epoch >= c.settings.strong_until * c.task_epochs

    def resize(self, batch: Batch) -> None:
        """Give a batch the image size of the epoch under way."""
        c, s = self.context, self.context.settings
        if (
            s.progressive_resize_from == 1
            or c.progress is None
            or (s.progressive_resize_in == "first" and len(c.task_map) > 1)
        ):
            return
        height, width = self._size(c.progress.epoch / c.task_epochs)
        batch.full_images = batch.images
        batch.images = downscale(batch.images, height=height, width=width).to(memory_format=c.layout)

    def classification_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the mean classification loss over samples, as the settings say."""
        s = self.context.settings
        if s.class_balancing == "logits":
            shifted = shift_logits(logits, self._counts, strength=s.balance_strength)
            if batch.patch_targets is None or batch.patch_shares is None:
                return F.cross_entropy(shifted, batch.targets)
            own, pasted = (F.cross_entropy(shifted, t, reduction="none") for t in (batch.targets, batch.patch_targets))
            return torch.lerp(own, pasted, batch.patch_shares).mean()
        losses = sample_losses(logits, batch.targets, self.context.task_map, loss=s.loss, negatives=s.negatives)
        return losses.mean()

    def teacher_logits(self, batch: Batch) -> Tensor:
        """Return the teacher's logits (n, old columns) for a batch."""
        if self.context.settings.cache_teacher_logits and batch.rows is not None:
            return self._teacher_logits[batch.rows].to(self.context.device)
        return self.teacher.logits(batch.images if batch.full_images is None else batch.full_images, batch.share)

    def distillation(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the weighted distillation loss of a batch, which is added to the method's own loss."""
        s = self.context.settings
        columns = self.teacher.columns
        new = max(logits.shape[1] - columns, 1)
        weight: float = s.distill * (columns / new) ** s.distill_growth
        return weight * distillation(logits[:, :columns], self.teacher_logits(batch), temperature=s.temperature).mean()

    def after_step(self) -> None:
        """Update the moving average of the weights."""
        decay = self.context.settings.ema
        if decay:
            model = self.context.model
            buffers = params.snapshot_buffers(model)
            now = params.snapshot(model) | {k: v for k, v in buffers.items() if v.is_floating_point()}
            self.average = params.lerp(self.average, now, 1 - decay) if self.average else now

    def end_training(self) -> None:
        """Use the averaged weights, and drop the teacher and its logits."""
        if self.average:
            params.restore(self.context.model, self.average)
        self.average = {}
        self.teacher.clear()
        self._teacher_logits = torch.empty(0)

    def _size(self, progress: float) -> tuple[int, int]:
        s = self.context.settings
        height, width = (
            side_at_progress(progress, full=side, start=s.progressive_resize_from, until=s.progressive_resize_until)
            for side in self.context.model.shape[1:]
        )
        return height, width
