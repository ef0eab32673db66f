"""What passes between the trainer and a method."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from itaml.shares import Share


@dataclass(eq=False)
class Batch:
    """A mini-batch of the union of the new task's data and the exemplars.

    In a run over several processes each holds the images of its share alone, and the targets of all.
    """

    images: Tensor  # (n, c, h, w) augmented pixels, at the size of the epoch
    targets: Tensor  # (n,) columns
    tasks: Tensor  # (n,) task of each sample
    rows: Tensor | None = None  # (n,) position of each sample in what the task is trained on, where that is known
    full_images: Tensor | None = None  # (n, c, h, w) at full size, where `images` are resized
    logits: Tensor | None = None  # (n, columns) of the network under training, once they are computed
    present: int | None = None  # how many tasks have samples, where it was counted on the CPU
    share: Share | None = None  # which of the n samples `images` are; None: all
    patch_targets: Tensor | None = None  # (n,) columns of the classes of pasted patches, where there are patches
    patch_shares: Tensor | None = None  # (n,) share of each image that its patch covers

    def present_tasks(self) -> int:
        """Return how many tasks have samples, without waiting for the device where that is known."""
        return len(self.tasks.unique()) if self.present is None else self.present

    def own_targets(self) -> Tensor:
        """Return the columns of the samples whose images are here."""
        return self.targets if self.share is None else self.targets[self.share.own.to(self.targets.device)]

    def select(self, positions: Tensor) -> Batch:
        """Return some of the samples as a batch, by their positions (m,)."""
        if self.share is None:
            return Batch(self.images[positions], self.targets[positions], self.tasks[positions])
        share, own = self.share.select(positions.cpu())
        images = self.images[own.to(self.images.device)]
        return Batch(images, self.targets[positions], self.tasks[positions], share=share)


@dataclass(frozen=True)
class Progress:
    """How far a task that is under way has come."""

    task: int
    epoch: int  # epochs done
