"""Samples of the scikit-learn estimator: rows of features or arrays of images, as images of a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]
FARTHEST = 10.0  # standard deviations from the mean


@dataclass(frozen=True)
class FeatureScaling:
    """Mean and standard deviation of each feature in the first call."""

    mean: Array  # (d,)
    std: Array  # (d,), 1 where a feature does not vary

    @classmethod
    def fit(cls, features: Array) -> FeatureScaling:
        """Measure the statistics on features (n, d)."""
        std = features.std(axis=0, dtype=np.float64)
        return cls(features.mean(axis=0, dtype=np.float64), np.where(std > 0, std, 1.0))

    def __call__(self, features: Array) -> Array:
        """Return standardised features, cut off at `FARTHEST`."""
        scaled: Array = np.clip((features - self.mean) / self.std, -FARTHEST, FARTHEST)
        return scaled


def sample_tensor(samples: Array) -> Tensor:
    """Return samples as images (n, c, h, w); features are one column of pixels."""
    if 0 in samples.shape[1:]:
        raise ValueError(f"samples of shape {samples.shape[1:]} have no pixels")
    if samples.ndim == 2:
        shaped = samples[:, None, :, None].astype(np.float32)
    elif samples.ndim in (3, 4):
        shaped = np.moveaxis(samples if samples.ndim == 4 else samples[..., None], 3, 1)
        shaped = shaped.copy() if shaped.dtype == np.uint8 else shaped.astype(np.float32)
    else:
        raise ValueError(f"samples are (n, d), (n, h, w) or (n, h, w, channels), not {samples.shape}")
    return torch.from_numpy(np.ascontiguousarray(shaped))
