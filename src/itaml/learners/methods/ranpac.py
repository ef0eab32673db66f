"""RanPAC: random projection and ridge regression (McDonnell, Gong, Parvaneh and others, NeurIPS 2023).

| symbol | here                                                       |
|--------|------------------------------------------------------------|
| W, M   | random projection, `width` of the projected features h     |
| G, C   | second moment of h, and its sums over each class           |
| lambda | `penalty`                                                  |

    h = relu(f W),    scores = h^T (G + lambda I)^-1 C

Differences from the paper: the penalty is a setting and not chosen on a validation split in every task; there is no
first-session adaptation of the backbone. Probabilities are calibrated by a temperature on ridge regression's
leave-one-out residuals.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.learners.api import Learner, Traits
from itaml.learners.components.head_fit import HeadFit, ScoreHead, fit_scores
from itaml.learners.components.linear_heads import LinearHead, project, random_projection, ridge
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.settings import Count, Positive
from itaml.learners.statistics_factory import statistics_learner
from itaml.learners.statistics_solver import StatisticsSettings

DEFAULT_TEMPERATURE = 0.1  # the targets of two classes are 1 apart


class RanPACSettings(StatisticsSettings):
    """Settings of RanPAC."""

    width: Count = 2000  # M
    penalty: Positive = 100.0  # lambda


class RanPAC:
    """Ridge regression on random features."""

    Settings: ClassVar[type[RanPACSettings]] = RanPACSettings
    traits: ClassVar[Traits] = Traits(trains_gradients=False, supports_compile=False, supports_recipe=False)
    name = "RanPAC"

    def __init__(self, settings: RanPACSettings, features: int, seed: int) -> None:
        self.settings = settings
        self.projection = random_projection(features, settings.width, seed=seed)

    @classmethod
    def from_settings(
        cls, settings: RanPACSettings, *, shape: Shape, seeds: Seeds, compute: Compute | None = None
    ) -> Learner:
        """Return a learner for images of `shape` (see `LearnerFactory`)."""
        return statistics_learner(
            lambda features: cls(settings, features, seeds.init), settings, shape=shape, seeds=seeds, compute=compute
        )

    def project(self, features: Tensor) -> Tensor:
        """Return h."""
        return project(features, self.projection)

    def width(self, features: int) -> int:
        """Return M."""
        return self.settings.width

    def fit(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> HeadFit:
        """Return the temperature and the threshold for unknown images, by leave-one-out."""
        rows = torch.tensor([statistics.row(label) for label in exemplars[1].tolist()], dtype=torch.int64)
        return fit_scores(self._left_out(statistics, exemplars[0], rows), rows, default=DEFAULT_TEMPERATURE)

    def head(self, statistics: FeatureStatistics, fit: HeadFit) -> ScoreHead:
        """Return the head."""
        return ScoreHead(self._ridge(statistics), fit.temperature)

    def _ridge(self, statistics: FeatureStatistics) -> LinearHead:
        return ridge(statistics, penalty=self.settings.penalty, intercept=False)

    def _left_out(self, statistics: FeatureStatistics, values: Tensor, rows: Tensor) -> Tensor:
        """Return leave-one-out scores: y - (y - h^T B) / (1 - h^T (G + lambda I)^-1 h), y the one-hot targets."""
        gram = statistics.moment + self.settings.penalty * torch.eye(statistics.features, dtype=torch.float64)
        factor = torch.linalg.cholesky(gram)
        leverage = (torch.cholesky_solve(values.T, factor).T * values).sum(1).clamp(max=1 - 1e-9)  # (n,)
        truth = torch.nn.functional.one_hot(rows, len(statistics.classes)).double()
        scores = truth - (truth - self._ridge(statistics)(values)) / (1 - leverage)[:, None]
        alone = statistics.counts[rows] < 2  # a class's only image left out leaves nothing of the class
        scores[alone, rows[alone]] = -torch.inf
        return scores
