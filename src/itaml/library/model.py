"""A model in memory: a learner, its validation images, and what is known about both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from itaml.config import Compute, Seeds, build
from itaml.data.images import ClassId, Shape
from itaml.errors import CheckpointError, ItamlError
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.library.held import Held
from itaml.library.pixels import format_of
from itaml.library.record import Facts
from itaml.models.classifier import build_classifier
from itaml.storage import State


@dataclass(frozen=True, eq=False)
class Model:
    """A learner, its validation images, and what is known about both."""

    facts: Facts
    learner: GradientLearner | None  # None before the first learn
    held: Held

    @property
    def ready(self) -> GradientLearner:
        """The learner of a model that has learned something."""
        assert self.learner is not None
        return self.learner

    def state(self) -> State:
        """Return the tensors to save."""
        images = {str(label): pixels for label, pixels in self.held.items()}
        return {"learner": self.ready.state_dict(), "validation": images}

    def copy(self, compute: Compute) -> Model:
        """Return an equal model that can be trained while this one stays as it is."""
        return self if self.learner is None else restore(self.facts, self.state(), compute)


def restored(what: str, facts: Facts, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes; `what` names the version in messages.

    Raises:
        ItamlError: the version cannot be restored, in one sentence, whatever it holds.
    """
    try:
        return restore(facts, state, compute)
    except ItamlError as error:
        raise type(error)(f"{what} cannot be restored: {error}") from error
    except Exception as error:  # the checksums fit, so somebody wrote this; it may hold anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{what} is not a model ({said:.200})") from error


def restore(facts: Facts, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes.

    Raises:
        CheckpointError: the state is not that of such a learner.
        UsageError: the record names a setting or a network that does not exist here.
    """
    if state is None or facts.shape is None:
        return Model(facts, None, {})
    learner = make_learner(facts, build(ITAMLSettings, facts.settings), compute)
    learner.load_state_dict(state["learner"])
    if len(learner.table.classes) != len(facts.classes):
        raise CheckpointError(f"the state has {len(learner.table.classes)} classes, the record {len(facts.classes)}")
    held = _validation(state.get("validation") or state.get("held") or {}, facts.shape, len(facts.classes))
    exemplars = learner.memory.exemplars()
    kept = torch.empty(0, *facts.shape) if exemplars is None else exemplars.load()[0]
    if tuple(kept.shape[1:]) != facts.shape:
        raise CheckpointError(f"the exemplars have shape {tuple(kept.shape[1:])}, not {facts.shape}")
    if facts.pixels is None:  # a folder of format 1 or older
        facts = facts.model_copy(update={"pixels": format_of(kept)})
    return Model(facts, learner, held)


def make_learner(facts: Facts, settings: ITAMLSettings, compute: Compute) -> GradientLearner:
    """Build a learner that has learned nothing."""
    assert facts.shape is not None
    network = build_classifier(settings.backbone, shape=facts.shape, seed=facts.options.seed)
    return GradientLearner(ITAML, network, settings=settings, seeds=Seeds.of(facts.options.seed), compute=compute)


def _validation(saved: Mapping[str, Any], shape: Shape, classes: int) -> dict[ClassId, Tensor]:
    held = {int(label): pixels for label, pixels in saved.items()}
    for label, pixels in held.items():
        if not 0 <= label < classes or not isinstance(pixels, Tensor) or tuple(pixels.shape[1:]) != shape:
            raise CheckpointError(f"the validation images of class {label} are not images of the model")
    return held
