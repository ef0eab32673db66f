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
accuracy on the exemplars is within one standard error of the best. Probabilities are calibrated by a
temperature on leave-one-out scores.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.learners.api import Learner, Traits
from itaml.learners.components.leave_one_out import choose_shrinkage, leave_one_out
from itaml.learners.components.linear_heads import LinearHead, lda
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.pretrained import on_features
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.learners.statistics_solver import StatisticsSettings

DEFAULT = 0.5  # shrinkage where there are no exemplars to choose it on


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

    @classmethod
    def from_settings(
        cls, settings: LDASettings, *, shape: Shape, seeds: Seeds, compute: Compute | None = None
    ) -> Learner:
        """Return a learner for images of `shape` (see `LearnerFactory`)."""
        return on_features(
            settings.backbone,
            lambda inner: StatisticsLearner(cls(settings), settings, shape=inner, seeds=seeds),
            shape=shape,
            compute=compute,
            flip=settings.feature_flip,
            transform=settings.feature_transform,
        )

    def project(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features

    def width(self, features: int) -> int:
        """Return the number of features."""
        return features

    def solve(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor] | None) -> LinearHead:
        """Return the head."""
        return lda(statistics, shrinkage=self._shrinkage(statistics, exemplars))

    def left_out(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> Tensor | None:
        """Return the leave-one-out scores of the exemplars."""
        found = leave_one_out(statistics, *exemplars, shrinkage=self._shrinkage(statistics, exemplars))
        return None if found is None else found.scores

    def _shrinkage(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor] | None) -> float:
        if self.settings.shrinkage != "auto":
            return self.settings.shrinkage
        return DEFAULT if exemplars is None else choose_shrinkage(statistics, *exemplars)
