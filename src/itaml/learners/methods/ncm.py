"""NCM: the nearest class mean of features (Mensink, Verbeek, Perronnin and Csurka, TPAMI 2013; iCaRL's classifier).

| symbol | here                            |
|--------|---------------------------------|
| m_c    | mean of the features of class c |

    score of class c for features f:  m_c^T f - m_c^T m_c / 2

Differences from the paper: no metric is learned. Probabilities are calibrated by a temperature on leave-one-out scores.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.learners.api import Learner, Traits
from itaml.learners.components.gaussian_classes import TEMPERATURE_PER_FEATURE
from itaml.learners.components.head_fit import HeadFit, ScoreHead, fit_scores
from itaml.learners.components.linear_heads import nearest_mean
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.statistics_factory import statistics_learner
from itaml.learners.statistics_solver import StatisticsSettings


class NCM:
    """The nearest class mean."""

    Settings: ClassVar[type[StatisticsSettings]] = StatisticsSettings
    traits: ClassVar[Traits] = Traits(trains_gradients=False, supports_compile=False, supports_recipe=False)
    name = "NCM"

    @classmethod
    def from_settings(
        cls, settings: StatisticsSettings, *, shape: Shape, seeds: Seeds, compute: Compute | None = None
    ) -> Learner:
        """Return a learner for images of `shape` (see `LearnerFactory`)."""
        return statistics_learner(lambda features: cls(), settings, shape=shape, seeds=seeds, compute=compute)

    def project(self, features: Tensor) -> Tensor:
        """Return the features as they are."""
        return features

    def width(self, features: int) -> int:
        """Return the number of features."""
        return features

    def fit(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> HeadFit:
        """Return the temperature and the threshold for unknown images, each exemplar left out in turn."""
        rows = torch.tensor([statistics.row(label) for label in exemplars[1].tolist()], dtype=torch.int64)
        spread = float((statistics.means - statistics.means.mean(0)).square().mean(0).sum())
        default = TEMPERATURE_PER_FEATURE * spread if spread > 0 else 1.0  # that of LDA with the identity as covariance
        return fit_scores(_left_out(statistics, exemplars[0], rows), rows, default=default)

    def head(self, statistics: FeatureStatistics, fit: HeadFit) -> ScoreHead:
        """Return the head."""
        return ScoreHead(nearest_mean(statistics), fit.temperature)


def _left_out(statistics: FeatureStatistics, features: Tensor, rows: Tensor) -> Tensor:
    """Return the scores of exemplars, each without itself in its own class's mean."""
    scores = nearest_mean(statistics)(features)
    counts = statistics.counts[rows].double()
    means = (statistics.sums[rows] - features) / (counts - 1).clamp_min(1)[:, None]
    own = (means * features).sum(1) - means.square().sum(1) / 2
    scores[torch.arange(len(rows)), rows] = torch.where(counts > 1, own, -torch.inf)
    return scores
