"""SVHN, cropped digits (Netzer et al., 2011): two MATLAB files. In them the digit 0 has the label 10."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet
from itaml.data.layouts import layout
from itaml.data.stream import Dataset
from itaml.errors import DataError


def load(options: LoadOptions) -> Dataset:
    """Read SVHN: 73,257 training and 26,032 test pictures (3, 32, 32); the extra pictures are not used.

    Raises:
        DataError: files are missing, broken or not SVHN's.
    """
    train, test = layout("svhn").require(options.root)
    return Dataset("svhn", tuple(map(str, range(10))), _read(train), _read(test))


def _read(path: Path) -> ImageSet:
    try:
        matlab = import_module("scipy.io").loadmat(str(path), variable_names=["X", "y"])
        images, labels = np.asarray(matlab["X"]), np.asarray(matlab["y"]).reshape(-1).astype(np.int64)
    except Exception as error:  # a broken file fails anywhere inside scipy's reader
        raise DataError(f"cannot read {path} as a MATLAB file with X and y: {error}") from error
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.dtype != np.uint8:
        raise DataError(f"{path}: X should be bytes of shape (32, 32, 3, n), not {images.dtype} {images.shape}")
    if images.shape[3] != len(labels):
        raise DataError(f"{path} has {images.shape[3]} pictures but {len(labels)} labels")
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise DataError(f"{path} has labels from {labels.min()} to {labels.max()}; they should lie in 1 to 10")
    pixels = np.ascontiguousarray(images.transpose(3, 2, 0, 1))  # (n, 3, 32, 32)
    return ImageSet.from_arrays(torch.from_numpy(pixels), torch.from_numpy(labels % 10))
