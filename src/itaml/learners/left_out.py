"""What a learner says of its exemplars, each as if it had not been learned: accuracy without a validation split."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from itaml.learners.api import Learner
from itaml.learners.components.head_fit import HeadFit
from itaml.learners.components.statistics import FeatureStatistics
from itaml.learners.statistics_learner import StatisticsLearner


@runtime_checkable
class LeavesOut(Protocol):
    """A solver that knows the scores of images that are left out."""

    def left_out(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor], fit: HeadFit) -> Tensor | None:
        """Return the scores of the exemplars (n, classes), each as if it had not been learned."""


def can_leave_out(learner: Learner) -> TypeGuard[StatisticsLearner]:
    """Say whether a learner can predict its exemplars as if each had not been learned."""
    return isinstance(learner, StatisticsLearner) and isinstance(learner.solver, LeavesOut)


def left_out_predictions(learner: StatisticsLearner) -> tuple[Tensor, Tensor]:
    """Return the classes of exemplars (n,), and what is predicted when each is left out (n,).

    Exemplars that are the only image of their class are not among them. After a learn these are the exemplars that the
    learner was calibrated on.
    """
    nothing = torch.zeros(0, dtype=torch.int64)
    if not isinstance(learner.solver, LeavesOut) or len(learner.statistics.classes) < 2:
        return nothing, nothing
    if learner.fit.left_out is not None:
        return learner.fit.left_out
    features, labels = learner.exemplar_features()
    if not len(labels):
        return nothing, nothing
    scores = learner.solver.left_out(learner.statistics, (features, labels), learner.fit)
    if scores is None:
        return nothing, nothing
    classes = torch.tensor(learner.statistics.classes)  # sorted
    known = scores[torch.arange(len(labels)), torch.searchsorted(classes, labels)].isfinite()
    return labels[known], classes[scores[known].argmax(1)]


def left_out_probabilities(learner: Learner, images: Tensor, labels: Tensor) -> Tensor | None:
    """Return the probabilities (n, columns of the task map) of learned images, each as if it had not been learned.

    Args:
        learner: the learner.
        images: samples that it has learned (n, c, h, w), at least one.
        labels: the class ids that they were learned under (n,).

    Returns:
        None where that is not known without learning again.
    """
    if not isinstance(learner, StatisticsLearner) or not isinstance(learner.solver, LeavesOut):
        return None
    statistics, fit = learner.statistics, learner.fit
    scores = learner.solver.left_out(statistics, (learner.projected(images), labels), fit)
    if scores is None:
        return None
    order = torch.tensor([statistics.classes.index(class_id) for class_id in learner.task_map.classes])
    return (scores[:, order] / fit.temperature).softmax(1).float()
