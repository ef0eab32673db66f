"""Statistics of features as plain values and tensors, to be stored; the second moment is symmetric: half of it."""

from __future__ import annotations

import torch

from itaml.errors import CheckpointError
from itaml.learners.components.statistics import FeatureStatistics
from itaml.storage import State


def statistics_state(statistics: FeatureStatistics) -> State:
    """Return copies of all values."""
    rows, columns = torch.triu_indices(statistics.features, statistics.features)
    return {
        "classes": list(statistics.classes),
        "counts": statistics.counts.clone(),
        "sums": statistics.sums.clone(),
        "moment": statistics.moment[rows, columns].clone(),
    }


def statistics_from(state: State, *, features: int) -> FeatureStatistics:
    """Return the statistics that `statistics_state` described.

    Raises:
        CheckpointError: they are of features of another length.
    """
    rows, columns = torch.triu_indices(features, features)
    if len(state["moment"]) != len(rows):
        raise CheckpointError("this state is of features of another length")
    moment = torch.zeros(features, features, dtype=torch.float64)
    moment[rows, columns] = state["moment"]
    moment[columns, rows] = state["moment"]
    return FeatureStatistics(tuple(state["classes"]), state["counts"], state["sums"], moment)
