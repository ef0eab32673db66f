"""Classify features, say how sure, and say when they belong to no class: LDA with its calibration.

The default for frozen features. Everything is fitted from `FeatureStatistics` and from features of training images (all
of them, or a sample), each left out in turn: the shrinkage, the temperature of the probabilities, and the threshold
below which an image is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.inference.temperature import fit_temperature
from itaml.inference.unknown import SIGNALS, UnknownDetector, cosine_similarity, fit_unknown_detector, signals_of
from itaml.learners.components.head_fit import REFUSE, HeadFit
from itaml.learners.components.leave_one_out import choose_shrinkage, leave_one_out
from itaml.learners.components.linear_heads import shrunk_covariance, whiten
from itaml.learners.components.statistics import FeatureStatistics

TEMPERATURE_PER_FEATURE = 0.1  # one image per class: test images of four sets gave 102 to 192 for 1,280


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """Classes as Gaussians with one covariance, relative to the mean of their means.

    `scores` are those of `lda` up to a constant per image, corrected for the noise of means of few images (see
    `leave_one_out`), which makes no difference where all classes have as many images.
    """

    classes: tuple[int, ...]
    class_means: Tensor  # (classes, d) as learned
    center: Tensor  # (d,) mean of the class means
    factor: Tensor  # (d, d) lower Cholesky factor of the shrunk covariance
    whitened: Tensor  # (classes, d) whitened class means, relative to the center
    bias: Tensor  # (classes,)
    temperature: float
    detector: UnknownDetector

    def scores(self, features: Tensor) -> Tensor:
        """Return LDA's scores (n, classes)."""
        return self._products(features)[0] + self.bias

    def probabilities(self, features: Tensor) -> Tensor:
        """Return calibrated probabilities (n, classes), which add up to one over the known classes."""
        return (self.scores(features) / self.temperature).softmax(1)

    def signals(self, features: Tensor) -> Tensor:
        """Return the signals (n, 3) from which `detector` tells unknown images."""
        inner, squares = self._products(features)
        cosines = cosine_similarity(features.double(), self.class_means)
        return signals_of(inner, squares, self.whitened.square().sum(1)[None], cosines)

    def is_unknown(self, features: Tensor) -> Tensor:
        """Return which images are none of the classes (n,)."""
        return self.detector.is_unknown(self.signals(features))

    def _products(self, features: Tensor) -> tuple[Tensor, Tensor]:
        white = whiten(features.double() - self.center, self.factor)
        return white @ self.whitened.T, white.square().sum(1)


def gaussian_classes(statistics: FeatureStatistics, fit: HeadFit) -> GaussianClasses:
    """Return LDA with a calibration that is known already."""
    means = statistics.means
    center = means.mean(0)
    factor = torch.linalg.cholesky(shrunk_covariance(statistics, fit.shrinkage))
    whitened = whiten(means - center, factor)
    return GaussianClasses(
        statistics.classes,
        means,
        center,
        factor,
        whitened,
        fit.noise / (2 * statistics.counts) - whitened.square().sum(1) / 2,
        fit.temperature,
        fit.detector,
    )


def calibrate_gaussian_classes(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkage: float | None = None,
    refuse: float = REFUSE,
) -> HeadFit:
    """Choose the shrinkage, the temperature and the threshold for unknown images by leave-one-out.

    Args:
        statistics: of all training images.
        features: training images for the calibration, part of the statistics (n, d); may be empty.
        labels: their classes (n,).
        shrinkage: of the covariance; None chooses it by leave-one-out.
        refuse: share of known images that may be called unknown.
    """
    if shrinkage is None:
        shrinkage = choose_shrinkage(statistics, features, labels)
    default = TEMPERATURE_PER_FEATURE * statistics.features
    left_out = leave_one_out(statistics, features, labels, shrinkage=shrinkage)
    if left_out is None:
        nothing = torch.zeros(0, len(SIGNALS), dtype=torch.float64)
        return HeadFit(default, fit_unknown_detector(nothing, refuse=refuse), shrinkage)
    return HeadFit(
        fit_temperature(left_out.scores, left_out.columns, default=default),
        fit_unknown_detector(left_out.signals, refuse=refuse),
        shrinkage,
        left_out.noise,
    )


def fit_gaussian_classes(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkage: float | None = None,
    refuse: float = REFUSE,
) -> GaussianClasses:
    """Fit LDA and its calibration (see `calibrate_gaussian_classes`)."""
    fit = calibrate_gaussian_classes(statistics, features, labels, shrinkage=shrinkage, refuse=refuse)
    return gaussian_classes(statistics, fit)
