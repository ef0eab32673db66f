"""LDA: linear discriminant analysis on features, exactly, from sums (after Hayes and Kanan, Deep SLDA, CVPRW 2020).

| symbol   | here                                                                                |
|----------|-------------------------------------------------------------------------------------|
| n_c, m_c | count and mean of class c                                                           |
| W        | pooled within-class covariance, (S - sum of n_c m_c m_c^T) / (N - C)                |
| a        | `shrinkage`                                                                         |
| Sigma    | (1 - a) W + a tr(W)/d I                                                             |

    score of class c for features f:  m_c^T Sigma^-1 f - m_c^T Sigma^-1 m_c / 2

Differences from the paper: the covariance comes from sums over all images (S is the sum of f f^T), so the classifier is
the same in any order of arrival; the published update is not. `shrinkage="auto"` is the strongest whose leave-one-out
accuracy on the exemplars is within one standard error of the best. Means of few images are corrected for their noise.
Probabilities are calibrated by a temperature, and unknown images are found by a threshold, both fitted to exemplars
that were left out. The backbone's own classifier, if it has one, helps to find unknown images.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.learners.api import Learner, Traits
from itaml.learners.components.gaussian_classes import (
    GaussianClasses,
    calibrate_gaussian_classes,
    gaussian_classes,
)
from itaml.learners.components.head_fit import HeadFit
from itaml.learners.components.leave_one_out import scores_left_out
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.statistics_factory import statistics_learner
from itaml.learners.statistics_solver import StatisticsSettings
from itaml.models.pretraining_classes import PretrainingClasses, pretraining_classes


class LDASettings(StatisticsSettings):
    """Settings of LDA."""

    shrinkage: Annotated[float, Field(gt=0, le=1)] | Literal["auto"] = "auto"  # a


class LDA:
    """Linear discriminant analysis from sums of features."""

    Settings: ClassVar[type[LDASettings]] = LDASettings
    traits: ClassVar[Traits] = Traits(trains_gradients=False, supports_compile=False, supports_recipe=False)
    name = "LDA"

    def __init__(self, settings: LDASettings) -> None:
        self.settings = settings

    @property
    def pretraining(self) -> PretrainingClasses | None:
        """The classifier that the backbone was trained with."""
        return pretraining_classes(self.settings.backbone, self.settings.feature_transform)

    @classmethod
    def from_settings(
        cls, settings: LDASettings, *, shape: Shape, seeds: Seeds, compute: Compute | None = None
    ) -> Learner:
        """Return a learner for images of `shape` (see `LearnerFactory`)."""
        return statistics_learner(lambda features: cls(settings), settings, shape=shape, seeds=seeds, compute=compute)

    def project(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features

    def width(self, features: int) -> int:
        """Return the number of features."""
        return features

    def fit(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> HeadFit:
        """Return a, the temperature and the threshold for unknown images, by leave-one-out."""
        shrinkage = None if self.settings.shrinkage == "auto" else self.settings.shrinkage
        return calibrate_gaussian_classes(statistics, *exemplars, shrinkage=shrinkage, pretraining=self.pretraining)

    def head(self, statistics: FeatureStatistics, fit: HeadFit) -> GaussianClasses:
        """Return the head."""
        return gaussian_classes(statistics, fit, pretraining=self.pretraining)

    def left_out(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor], fit: HeadFit) -> Tensor | None:
        """Return the scores of the exemplars (n, classes), each as if it had not been learned."""
        return scores_left_out(statistics, *exemplars, shrinkage=fit.shrinkage)
