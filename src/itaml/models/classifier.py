"""`Classifier`: pixels in, one logit for each class seen so far out; the head grows task by task."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml import seeding
from itaml.data.images import ClassId, ImageSet, Shape
from itaml.data.ownership import read_together
from itaml.errors import DataError
from itaml.models import MODELS
from itaml.models.task_map import TaskMap


class Normalize(nn.Module):
    """Scale pixels to zero mean and unit std per channel, with statistics of the first task's training images."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    def fit(self, images: Tensor) -> None:
        """Measure the statistics on images (n, c, h, w)."""
        values = _unit(images, torch.float64)
        self.mean.copy_(values.mean((0, 2, 3)))
        self.std.copy_(values.std((0, 2, 3)).clamp_min(1e-3))

    def forward(self, images: Tensor) -> Tensor:
        """Return float images in the type of the statistics."""
        return (_unit(images, self.mean.dtype) - self.mean[:, None, None]) / self.std[:, None, None]


def _unit(images: Tensor, dtype: torch.dtype) -> Tensor:
    return images.to(dtype) / 255 if images.dtype == torch.uint8 else images.to(dtype)


class GrowingHead(nn.Module):
    """A linear layer whose rows are added task by task (phi in the paper; phi_i are the rows of task i)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.task_map = TaskMap()
        self.weight = nn.Parameter(torch.empty(0, features))
        self.bias = nn.Parameter(torch.empty(0))

    def grow(self, classes: tuple[ClassId, ...], *, generator: torch.Generator) -> None:
        """Add a row for each class; rows that are there keep their values to the bit."""
        self.task_map = self.task_map.grown(classes)
        features = self.weight.shape[1]
        rows = (2 * torch.rand(len(classes), features, generator=generator) - 1) / math.sqrt(features)
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows.to(self.weight)]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), torch.zeros(len(classes)).to(self.bias)]))

    def remove(self, class_id: ClassId) -> None:
        """Remove the row of a class; the other rows keep their values to the bit."""
        column = int(self.task_map.column_of(torch.tensor([class_id])))
        keep = [row for row in range(len(self.task_map.classes)) if row != column]
        self.task_map = self.task_map.without(class_id)
        self.weight = nn.Parameter(self.weight.detach()[keep])
        self.bias = nn.Parameter(self.bias.detach()[keep])

    def reset(self, task_map: TaskMap) -> None:
        """Take the sizes of another table, with rows of zeros that are about to be overwritten."""
        self.task_map = task_map
        self.weight = nn.Parameter(self.weight.new_zeros(len(task_map.classes), self.weight.shape[1]))
        self.bias = nn.Parameter(self.bias.new_zeros(len(task_map.classes)))

    def forward(self, features: Tensor) -> Tensor:
        """Return logits (n, columns)."""
        return F.linear(features, self.weight, self.bias)


class Classifier(nn.Module):
    """A backbone (theta) and a growing head (phi).

    Args:
        backbone: any module that maps float images (n, c, h, w) to features (n, d), or to maps that flatten to them.
        shape: shape of one image.
    """

    def __init__(self, backbone: nn.Module, *, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.normalize = Normalize(shape[0])
        self.backbone = backbone
        self.head = GrowingHead(_feature_count(backbone, shape))
        self.fixed_normalization = False

    @property
    def task_map(self) -> TaskMap:
        """The head's task map."""
        return self.head.task_map

    def features(self, images: Tensor) -> Tensor:
        """Return features (n, d) of images that are pixels."""
        self.check(images)
        return self._features(images)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, columns) of images that are pixels."""
        self.check(images)
        return self.logits(images)

    def logits(self, images: Tensor, *, through: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return logits (n, columns) of images of any size that the backbone takes, as training may use.

        Args:
            images: pixels (n, c, h, w).
            through: called instead of the backbone: the same network, computed in another way.
        """
        features = (through or self.backbone)(self.normalize(images)).flatten(1)
        return self.head(features)  # type: ignore[no-any-return]

    def takes(self, shape: Shape) -> bool:
        """Return whether images of another shape give as many features."""
        try:
            return _feature_count(self.backbone, shape) == self.head.weight.shape[1]
        except DataError:
            return False

    def _features(self, images: Tensor) -> Tensor:
        return self.backbone(self.normalize(images)).flatten(1)  # type: ignore[no-any-return]

    def check(self, images: Tensor) -> None:
        """Refuse images of another shape than the model's.

        Raises:
            DataError: the shape differs.
        """
        if tuple(images.shape[1:]) != self.shape:
            raise DataError(
                f"the model takes images of shape {_shape_text(self.shape)}, these are "
                f"{_shape_text(tuple(images.shape[1:]))}"
            )

    def fix_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        """Use the pixel statistics that a pretrained backbone expects, for pixels between 0 and 1."""
        self.normalize.mean.copy_(torch.tensor(mean))
        self.normalize.std.copy_(torch.tensor(std))
        self.fixed_normalization = True

    def fit_normalization(self, images: ImageSet, *, limit: int = 10_000) -> None:
        """Measure pixel statistics on at most `limit` of the images, evenly spread, unless they are fixed."""
        if self.fixed_normalization:
            return
        positions = torch.linspace(0, len(images) - 1, min(limit, len(images))).round().long()
        self.normalize.fit(read_together(images, positions)[0])


def build_classifier(name: str, *, shape: Shape, seed: int) -> Classifier:
    """Build the registered model `name` for images of `shape`, initialised from `seed`.

    Raises:
        UnknownNameError: no such model.
        DataError: the model cannot take images of this shape.
    """
    factory = MODELS.load(name)
    with seeding.seeded(seed, "init", "backbone"):
        return Classifier(factory(shape), shape=shape)


def _feature_count(backbone: nn.Module, shape: Shape) -> int:
    training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            return _count_on_meta(backbone, shape) or _count_by_running(backbone, shape)
    except RuntimeError as error:
        raise DataError(f"the backbone cannot take images of shape {_shape_text(shape)}: {error}") from error
    finally:
        backbone.train(training)


def _count_on_meta(backbone: nn.Module, shape: Shape) -> int | None:
    """Return the number of features from shapes alone, at the same cost for images of any size; None if it fails."""
    tensors = {**dict(backbone.named_parameters()), **dict(backbone.named_buffers())}
    on_meta = {name: tensor.to("meta") for name, tensor in tensors.items()}
    image = torch.zeros(1, *shape, device="meta", dtype=next(iter(tensors.values()), torch.empty(0)).dtype)
    try:
        features = torch.func.functional_call(backbone, on_meta, (image,))
        return int(features.flatten(1).shape[1])
    except Exception:  # a backbone may hold tensors of its own, or not be of torch at all
        return None


def _count_by_running(backbone: nn.Module, shape: Shape) -> int:
    first = next(backbone.parameters(), torch.empty(0))
    return int(backbone(torch.zeros(1, *shape, device=first.device)).flatten(1).shape[1])


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
