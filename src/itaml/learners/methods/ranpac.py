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
from itaml.learners.components.linear_heads import LinearHead, project, random_projection, ridge
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.pretrained import on_features
from itaml.learners.settings import Count, Positive
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.learners.statistics_solver import StatisticsSettings


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

        def make(inner: Shape) -> Learner:
            solver = cls(settings, inner[0] * inner[1] * inner[2], seeds.init)
            return StatisticsLearner(solver, settings, shape=inner, seeds=seeds)

        return on_features(
            settings.backbone,
            make,
            shape=shape,
            compute=compute,
            flip=settings.feature_flip,
            transform=settings.feature_transform,
        )

    def project(self, features: Tensor) -> Tensor:
        """Return h."""
        return project(features, self.projection)

    def width(self, features: int) -> int:
        """Return M."""
        return self.settings.width

    def solve(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor] | None) -> LinearHead:
        """Return the head."""
        return ridge(statistics, penalty=self.settings.penalty, intercept=False)

    def left_out(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> Tensor | None:
        """Return leave-one-out scores: y - (y - h^T B) / (1 - h^T (G + lambda I)^-1 h), y the one-hot targets."""
        values, labels = exemplars
        head = self.solve(statistics, exemplars)
        gram = statistics.moment + self.settings.penalty * torch.eye(statistics.features, dtype=torch.float64)
        factor = torch.linalg.cholesky(gram)
        leverage = (torch.cholesky_solve(values.T, factor).T * values).sum(1).clamp(max=1 - 1e-9)  # (n,)
        rows = torch.tensor([statistics.row(label) for label in labels.tolist()])
        truth = torch.nn.functional.one_hot(rows, len(head.classes)).double()
        return truth - (truth - head(values)) / (1 - leverage)[:, None]
