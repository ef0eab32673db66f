"""MNIST (LeCun, Cortes and Burges) and Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): idx files, plain or gzipped.

An idx file is a big-endian header (two zero bytes, a type, which is 8 for bytes, the number of dimensions, their sizes)
and then the values.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet
from itaml.data.layouts import layout
from itaml.data.safe_reading import data_file, unzipped
from itaml.data.stream import Dataset
from itaml.errors import DataError

MAX_BYTES = 200_000_000  # of a file, packed or not; the training images of MNIST have 47,040,000
DIGITS = tuple(map(str, range(10)))
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def load(options: LoadOptions) -> Dataset:
    """Read MNIST: 60,000 training and 10,000 test images (1, 28, 28).

    Raises:
        DataError: files are missing, broken or not MNIST's.
    """
    return _load("mnist", DIGITS, options)


def load_fashion(options: LoadOptions) -> Dataset:
    """Read Fashion-MNIST, which has MNIST's form (see `load` for errors)."""
    return _load("fashion-mnist", CLOTHES, options)


def _load(name: str, class_names: tuple[str, ...], options: LoadOptions) -> Dataset:
    train_images, train_labels, test_images, test_labels = layout(name).require(options.root)
    return Dataset(name, class_names, _pair(train_images, train_labels), _pair(test_images, test_labels))


def _pair(images_file: Path, labels_file: Path) -> ImageSet:
    images = read_idx(images_file, dimensions=3).unsqueeze(1)  # (n, 1, h, w)
    labels = read_idx(labels_file, dimensions=1).long()
    if len(images) != len(labels):
        raise DataError(f"{images_file} has {len(images)} images but {labels_file} {len(labels)} labels")
    if len(labels) and labels.max() > 9:
        raise DataError(f"{labels_file} has label {int(labels.max())}; there are classes 0 to 9")
    return ImageSet.from_arrays(images, labels)


def read_idx(path: Path, *, dimensions: int) -> Tensor:
    """Return the bytes of an idx file as a tensor; no more is decompressed than its header says there is.

    Raises:
        DataError: the file is unreadable, of another form, or shorter or longer than its header says.
    """
    start = 4 + 4 * dimensions
    with data_file(path, limit=MAX_BYTES) as file:
        content = unzipped(file, path)
        head = content.read(start)
        if len(head) < start or head[:4] != bytes([0, 0, 8, dimensions]):
            raise DataError(f"{path} is not an idx file of bytes in {dimensions} dimensions")
        sizes = struct.unpack(f">{dimensions}I", head[4:])
        count = math.prod(sizes)
        if count > MAX_BYTES:
            raise DataError(f"{path} should hold {count} bytes, more than the limit of {MAX_BYTES}")
        values = content.read(count + 1)
    if len(values) != count:
        validation_images = f"{len(values)}" if len(values) < count else "more"
        raise DataError(f"{path} should hold {count} bytes after its header, but holds {validation_images}")
    return torch.from_numpy(np.frombuffer(values, dtype=np.uint8).copy()).reshape(sizes)
