"""A model to go on with: equal to one in memory, which stays as it is."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from itaml.config import Compute
from itaml.learners.api import Learner
from itaml.learners.frozen import FrozenLearner
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.modelstore.loaded_model import Model, restore


def copied(model: Model, compute: Compute) -> Model:
    """Return an equal model that can be trained while this one stays as it is."""
    if model.learner is None:
        return model
    if isinstance(model.core, StatisticsLearner):
        return replace(model, learner=_copied(model.learner), validation_images=dict(model.validation_images))
    return restore(model.manifest, model.state(), compute, like=model.learner)


def _copied(learner: Learner) -> Learner:
    """Return a learner of sums that can learn by itself; its tensors, which never change, are not copied."""
    twin = copy(learner)
    if isinstance(twin, FrozenLearner):
        twin.learner = _copied(twin.learner)
    elif isinstance(twin, StatisticsLearner):
        twin.memory = twin.memory.copy()
    return twin
