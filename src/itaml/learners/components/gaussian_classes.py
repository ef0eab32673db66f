"""Classify features, say how sure, and say when they belong to no class: LDA with its calibration.

The default for frozen features. Everything is fitted from `FeatureStatistics` and from features of a sample of training
images (`calibration_sample`), each left out in turn: the shrinkage, the temperature of the probabilities, and the
threshold below which an image is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from itaml.inference.temperature import fit_temperature
from itaml.inference.unknown import UnknownDetector, cosine_similarity, fit_unknown_detector, signals_of
from itaml.learners.components.calibration_sample import calibration_rows
from itaml.learners.components.head_fit import REFUSE, HeadFit
from itaml.learners.components.leave_one_out import feature_variance, leave_one_out
from itaml.learners.components.left_out_scores import choose_shrinkage
from itaml.learners.components.linear_heads import shrunk_covariance, whiten
from itaml.learners.components.statistics import FeatureStatistics, within_scatter
from itaml.models.pretraining_classes import PretrainingClasses

TEMPERATURE_POWER = 0.4  # chosen on training images of four sets with 2 and 5 images per class
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
    pretraining: PretrainingClasses | None = None
    roots: Tensor | None = None  # (classes, k): of the class means, by `pretraining`

    def scores(self, features: Tensor) -> Tensor:
        """Return LDA's scores (n, classes)."""
        return self._inner(features) + self.bias

    def probabilities(self, features: Tensor) -> Tensor:
        """Return calibrated probabilities (n, classes), which add up to one over the known classes."""
        return (self.scores(features) / self.temperature).softmax(1)

    def signals(self, features: Tensor) -> Tensor:
        """Return the signals (n, signals) from which `detector` tells unknown images."""
        inner = self._inner(features)
        logits = (inner + self.bias) / self.temperature
        cosines = cosine_similarity(features.double(), self.class_means)
        affinities = None
        if self.pretraining is not None and self.roots is not None:
            affinities = self.pretraining.roots(features) @ self.roots.T
        return signals_of(inner, self.whitened.square().sum(1)[None], logits, cosines, affinities)

    def is_unknown(self, features: Tensor) -> Tensor:
        """Return which images are none of the classes (n,)."""
        return self.detector.is_unknown(self.signals(features))

    def _inner(self, features: Tensor) -> Tensor:
        return whiten(features.double() - self.center, self.factor) @ self.whitened.T


def gaussian_classes(
    statistics: FeatureStatistics, fit: HeadFit, *, pretraining: PretrainingClasses | None = None
) -> GaussianClasses:
    """Return LDA with a calibration that is known already.

    Args:
        statistics: of all training images.
        fit: the calibration.
        pretraining: the classifier of the backbone, if `fit` was made with it.
    """
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
        pretraining,
        None if pretraining is None else pretraining.roots(means, feature_variance(statistics)),
    )


def calibrate_gaussian_classes(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkage: float | None = None,
    refuse: float = REFUSE,
    pretraining: PretrainingClasses | None = None,
) -> HeadFit:
    """Choose the shrinkage, the temperature and the threshold for unknown images by leave-one-out.

    Args:
        statistics: of all training images.
        features: training images for the calibration, part of the statistics (n, d); may be empty.
        labels: their classes (n,).
        shrinkage: of the covariance; None chooses it by leave-one-out.
        refuse: share of known images that may be called unknown.
        pretraining: the classifier of the backbone, which helps to tell unknown images.
    """
    rows, scatter = calibration_rows(features, labels), within_scatter(statistics, fast=True)
    if shrinkage is None:
        shrinkage = choose_shrinkage(statistics, features[rows], labels[rows], scatter=scatter)
    default = TEMPERATURE_PER_FEATURE * statistics.features
    left_out = leave_one_out(
        statistics,
        features,
        labels,
        shrinkage=shrinkage,
        pretraining=pretraining,
        rows=rows,
        scatter=scatter,
        fast=True,
    )
    if left_out is None:
        return HeadFit(default, fit_unknown_detector(torch.zeros(0, 1, dtype=torch.float64), refuse=refuse), shrinkage)
    temperature = fit_temperature(left_out.scores, left_out.columns, default=default)
    temperature *= one_more_image(statistics.counts[left_out.columns])
    detector = fit_unknown_detector(
        left_out.signals(temperature), unknown=left_out.unknown_signals(temperature), refuse=refuse
    )
    classes = torch.tensor(statistics.classes)
    usable = ~left_out.known.alone
    predicted = classes[left_out.columns[usable]], classes[left_out.scores[usable].argmax(1)]
    return HeadFit(temperature, detector, shrinkage, left_out.known.noise, predicted)


def one_more_image(counts: Tensor) -> float:
    """Return the factor of the temperature from images that were left out to the model that has learned them.

    Class means of n images are better than those of n - 1 that the left-out images saw. Temperatures fitted with means
    of 1, 4 and 19 training images fall about as a power of that number.

    Args:
        counts: images of the class of each image that was left out (n,).
    """
    several = counts[counts > 1].double()
    return float(((several - 1) / several).pow(TEMPERATURE_POWER).mean()) if len(several) else 1.0


def fit_gaussian_classes(
    statistics: FeatureStatistics,
    features: Tensor,
    labels: Tensor,
    *,
    shrinkage: float | None = None,
    refuse: float = REFUSE,
    pretraining: PretrainingClasses | None = None,
) -> GaussianClasses:
    """Fit LDA and its calibration (see `calibrate_gaussian_classes`)."""
    fit = calibrate_gaussian_classes(
        statistics, features, labels, shrinkage=shrinkage, refuse=refuse, pretraining=pretraining
    )
    return gaussian_classes(statistics, fit, pretraining=pretraining)
