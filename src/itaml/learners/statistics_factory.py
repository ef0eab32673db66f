"""Make a `StatisticsLearner` from settings: on pixels, or on the features of a frozen backbone."""

from __future__ import annotations

import math
from collections.abc import Callable

from itaml.config import Compute, Seeds
from itaml.data.images import Shape
from itaml.learners.api import Learner
from itaml.learners.frozen import on_features
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.learners.statistics_solver import Solver, StatisticsSettings


def statistics_learner(
    make_solver: Callable[[int], Solver],
    settings: StatisticsSettings,
    *,
    shape: Shape,
    seeds: Seeds,
    compute: Compute | None,
) -> Learner:
    """Return a learner for images of `shape`.

    Args:
        make_solver: makes the solver for a number of features.
        settings: of the method.
        shape: of the images.
        seeds: a seed for each random choice.
        compute: where a pretrained backbone computes.
    """

    def make(inner: Shape) -> Learner:
        return StatisticsLearner(make_solver(math.prod(inner)), settings, shape=inner, seeds=seeds)

    return on_features(settings, make, shape=shape, compute=compute)
