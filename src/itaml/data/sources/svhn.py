"""SVHN, cropped digits (Netzer et al., 2011): two MATLAB files. In them the digit 0 has the label 10."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from itaml.data.benchmarks import LoadOptions
from itaml.data.halving import halved
from itaml.data.images import ImageSet
from itaml.data.layouts import layout
from itaml.data.matlab import read_matlab
from itaml.data.stream import Dataset
from itaml.errors import DataError


def load(options: LoadOptions) -> Dataset:
    """Read SVHN: 73,257 training and 26,032 test images (3, 32, 32); the extra images are not used.

    Raises:
        DataError: files are missing, broken or not SVHN's.
    """
    train, test = layout("svhn").require(options.root)
    return Dataset("svhn", tuple(map(str, range(10))), _read(train), _read(test))


def load_10k(options: LoadOptions) -> Dataset:
    """Read SVHN-10k: 8,000 training and 2,000 test images in files of SVHN's form, in a folder of another name.

    Raises:
        DataError: files are missing, broken or not of SVHN's form.
    """
    train, test = layout("svhn-10k").require(options.root)
    return Dataset("svhn-10k", tuple(map(str, range(10))), _read(train), _read(test))


def load_10k_16px(options: LoadOptions) -> Dataset:
    """Read SVHN-10k in half the size (see `load_10k` for errors)."""
    return halved(load_10k(options))


def _read(path: Path) -> ImageSet:
    arrays = read_matlab(path, ("X", "y"))
    images, labels = arrays["X"], arrays["y"].reshape(-1)
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise DataError(f"{path}: X should be bytes of shape (32, 32, 3, n), not {images.dtype} {images.shape}")
    if images.shape[3] != len(labels):
        raise DataError(f"{path} has {images.shape[3]} images but {len(labels)} labels")
    if not np.isin(labels, range(1, 11)).all():
        wrong = labels[~np.isin(labels, range(1, 11))][0]
        raise DataError(f"{path} has a label {wrong}; labels should lie in 1 to 10")
    pixels = np.ascontiguousarray(images.transpose(3, 2, 0, 1))  # (n, 3, 32, 32)
    return ImageSet.from_arrays(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64) % 10))
