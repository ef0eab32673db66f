"""Make sets of images and streams of any object with (image, label) items: torchvision's, Hugging Face's, a list.

An image is a PIL image, a numpy array (height, width[, channels]) or a tensor (channels, height, width). The first
one decides how many channels (1 or 3) and which type (bytes, or floats taken as they are) all have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from itaml.data.decoding import to_rgb
from itaml.data.images import ImageSet, Shape
from itaml.data.stream import Dataset, TaskStream, split_classes
from itaml.errors import DataError

IMAGE_KEYS = ("image", "img", "pixel_values")
LABEL_KEYS = ("label", "labels", "fine_label", "target")


class Items(Protocol):
    """What is needed of a data set object."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class ItemPixels:
    """A pixel store that asks its items for an image each time one is wanted."""

    items: Items
    shape: Shape
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.items)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images of `rows`, all of them.

        Raises:
            DataError: an item cannot be had, or its image is of another form than the first.
        """
        images = torch.empty(len(rows), *self.shape, dtype=self.dtype)
        for position, row in enumerate(rows.tolist()):
            images[position] = self._image(row)
        return images, torch.arange(len(rows))

    def _image(self, row: int) -> Tensor:
        image = _tensor(_part(self.items, row, IMAGE_KEYS, 0), row)
        if image.dtype != self.dtype:
            raise DataError(f"item {row} has pixels of type {image.dtype}, the first item {self.dtype}")
        channels, height, width = self.shape
        if len(image) != channels:
            image = image.expand(3, -1, -1) if len(image) == 1 else _grey(image)
        return image if image.shape[1:] == (height, width) else _resized(image, height, width, row)


def from_items(
    items: Items,
    size: int | None = None,
    *,
    labels: Sequence[int] | Tensor | None = None,
    class_names: Sequence[str] | None = None,
) -> ImageSet:
    """Make a set of images of (image, label) items, or of dictionaries with such keys, reading images when needed.

    Args:
        items: the data set object.
        size: side of the square that every image becomes; that of the first image if None.
        labels: class ids, if they are known. Else a column or attribute of the object gives them if it has one, and if
            not, every item is read once.
        class_names: needed if the labels are names, to number them.

    Raises:
        DataError: there are no items, or they are not images with labels.
    """
    if not len(items):
        raise DataError("a data set without items")
    found = labels if labels is not None else _labels(items)
    ids = _numbered(found, class_names)
    if len(ids) != len(items):
        raise DataError(f"{len(items)} items but {len(ids)} labels")
    first = _tensor(_part(items, 0, IMAGE_KEYS, 0), 0)
    height, width = (size, size) if size is not None else (first.shape[1], first.shape[2])
    pixels = ItemPixels(items, (len(first), height, width), first.dtype)
    return ImageSet(pixels, ids, torch.arange(len(ids)))


def stream_from_items(
    train: Items,
    test: Items,
    *,
    tasks: int | Sequence[int],
    size: int | None = None,
    class_names: Sequence[str] | None = None,
    order_seed: int | None = None,
) -> TaskStream:
    """Make a stream of two data set objects (see `from_items`), their classes divided into tasks.

    Raises:
        DataError: the items are not images with labels, or test and training images differ in form.
        SettingsError: the classes do not divide into `tasks`.
    """
    names = tuple(class_names or _names(train))
    train_set = from_items(train, size, class_names=names)
    names = names or tuple(map(str, range(int(train_set.labels.max()) + 1)))
    test_set = from_items(test, size or train_set.shape[1], class_names=names)
    if train_set.shape != test_set.shape:
        raise DataError(f"training images are {train_set.shape} but test images {test_set.shape}: give a size")
    highest = int(torch.cat([train_set.labels, test_set.labels]).max())
    if highest >= len(names):
        raise DataError(f"label {highest}, but only {len(names)} classes")
    dataset = Dataset(type(train).__name__, names, train_set, test_set)
    return TaskStream(dataset, split_classes(range(len(names)), sizes=tasks, order_seed=order_seed))


def _part(items: Items, row: int, keys: Sequence[str], position: int) -> Any:
    try:
        item = items[row]
        if isinstance(item, Mapping):
            return next(item[key] for key in keys if key in item)
        return item[position]
    except Exception as error:  # whatever a foreign data set raises, the person should hear which item it was
        raise DataError(f"item {row} is not an (image, label) pair: {type(error).__name__}: {error}") from error


def _labels(items: Items) -> Any:
    """Return all labels, without touching images where the object can tell."""
    columns = getattr(items, "column_names", None)  # Hugging Face
    if isinstance(columns, list):
        key = next((key for key in LABEL_KEYS if key in columns), None)
        if key is not None:
            return items[key]  # type: ignore[index]
    targets = getattr(items, "targets", getattr(items, "labels", None))  # torchvision
    if targets is not None and getattr(items, "target_transform", None) is None and len(targets) == len(items):
        return targets
    return [_part(items, row, LABEL_KEYS, 1) for row in range(len(items))]


def _names(items: Items) -> tuple[str, ...]:
    """Return the class names an object knows, or those its labels are."""
    features = getattr(items, "features", None)
    if isinstance(features, Mapping):
        known = next((getattr(features[key], "names", None) for key in LABEL_KEYS if key in features), None)
        if known:
            return tuple(known)
    classes = getattr(items, "classes", None)
    if classes is not None:
        return tuple(map(str, classes))
    labels = list(_labels(items))
    return tuple(sorted(set(labels))) if labels and all(isinstance(label, str) for label in labels) else ()


def _numbered(labels: Any, class_names: Sequence[str] | None) -> Tensor:
    values = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)
    if any(isinstance(value, str) for value in values):
        number = {name: class_id for class_id, name in enumerate(class_names or ())}
        strange = next((value for value in values if value not in number), None)
        if strange is not None:
            raise DataError(f"the label {strange!r} is a name without a number: give class_names")
        values = [number[value] for value in values]
    try:
        ids = torch.tensor([int(value) for value in values], dtype=torch.int64)
    except (TypeError, ValueError) as error:
        raise DataError(f"labels should be whole numbers or names: {error}") from error
    if len(ids) and ids.min() < 0:
        raise DataError(f"label {int(ids.min())} is below 0")
    return ids


def _tensor(image: Any, row: int) -> Tensor:
    """Return an image as (channels, height, width), bytes or float32."""
    if isinstance(image, Image.Image):
        try:
            image = np.asarray(image.convert("L") if image.mode in ("1", "L") else to_rgb(image))
        except (OSError, ValueError) as error:
            raise DataError(f"item {row} cannot be read: {error}") from error
    if isinstance(image, np.ndarray):
        if image.ndim not in (2, 3):
            raise DataError(f"item {row} is an array of shape {image.shape}, not (height, width[, channels])")
        image = torch.from_numpy(_numbers(image, row).copy())
        image = image.unsqueeze(0) if image.dim() == 2 else image.permute(2, 0, 1)
    if not isinstance(image, Tensor) or image.dim() != 3 or len(image) not in (1, 3):
        form = tuple(image.shape) if isinstance(image, Tensor) else type(image).__name__
        raise DataError(f"item {row} is no image with 1 or 3 channels: {form}")
    if image.is_floating_point():
        return image.float()
    if image.dtype != torch.uint8:
        raise DataError(f"item {row} has pixels of type {image.dtype}; they should be bytes or floats")
    return image


def _numbers(image: npt.NDArray[Any], row: int) -> npt.NDArray[Any]:
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * 255
    if image.dtype == np.uint16:
        return ((image.astype(np.int64) + 128) // 257).astype(np.uint8)
    if image.dtype == np.uint8 or np.issubdtype(image.dtype, np.floating):
        return image
    raise DataError(f"item {row} has pixels of type {image.dtype}; they should be bytes or floats")


def _grey(image: Tensor) -> Tensor:
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]  # ITU-R 601, as Pillow does
    grey = (image.float() * weights).sum(0, keepdim=True)
    return grey.round().to(torch.uint8) if image.dtype == torch.uint8 else grey


def _resized(image: Tensor, height: int, width: int, row: int) -> Tensor:
    """Scale the centre square of an image to the wanted square; images that need not be square must fit already."""
    if height != width:
        raise DataError(f"item {row} is {tuple(image.shape[1:])}, the first item {(height, width)}: give a size")
    side = min(image.shape[1:])
    top, left = (image.shape[1] - side) // 2, (image.shape[2] - side) // 2
    square = image[None, :, top : top + side, left : left + side].float()
    scaled = F.interpolate(square, size=(height, width), mode="bilinear", antialias=True)[0]
    return scaled.round().clamp(0, 255).to(torch.uint8) if image.dtype == torch.uint8 else scaled
