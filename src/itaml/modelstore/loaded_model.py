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
from itaml.models.classifier import build_classifier
from itaml.modelstore.manifest import Manifest
from itaml.modelstore.pixels import format_of
from itaml.modelstore.validation import ValidationImages
from itaml.storage import State


@dataclass(frozen=True, eq=False)
class Model:
    """A learner, its validation images, and what is known about both."""

    manifest: Manifest
    learner: GradientLearner | None  # None before the first learn
    validation_images: ValidationImages

    @property
    def ready(self) -> GradientLearner:
        """The learner of a model that has learned something."""
        assert self.learner is not None
        return self.learner

    def state(self) -> State:
        """Return the tensors to save."""
        images = {str(label): pixels for label, pixels in self.validation_images.items()}
        return {"learner": self.ready.state_dict(), "validation": images}

    def copy(self, compute: Compute) -> Model:
        """Return an equal model that can be trained while this one stays as it is."""
        return self if self.learner is None else restore(self.manifest, self.state(), compute)


def restored(what: str, manifest: Manifest, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes; `what` names the version in messages.

    Raises:
        ItamlError: the version cannot be restored, in one sentence, whatever it holds.
    """
    try:
        return restore(manifest, state, compute)
    except ItamlError as error:
        raise type(error)(f"{what} cannot be restored: {error}") from error
    except Exception as error:  # the checksums fit, so somebody wrote this; it may hold anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{what} is not a model ({said:.200})") from error


def restore(manifest: Manifest, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes.

    Raises:
        CheckpointError: the state is not that of such a learner.
        UsageError: the record names a setting or a network that does not exist here.
    """
    if state is None or manifest.shape is None:
        return Model(manifest, None, {})
    settings = build(ITAMLSettings, manifest.settings)
    _check_network(settings.backbone, manifest.shape, state["learner"]["model"])
    learner = make_learner(manifest, settings, compute)
    learner.load_state_dict(state["learner"])
    if len(learner.task_map.classes) != len(manifest.classes):
        raise CheckpointError(
            f"the state has {len(learner.task_map.classes)} classes, the record {len(manifest.classes)}"
        )
    validation_images = _validation(state.get("validation") or {}, manifest.shape, len(manifest.classes))
    exemplars = learner.memory.exemplars()
    kept = torch.empty(0, *manifest.shape) if exemplars is None else exemplars.load()[0]
    if tuple(kept.shape[1:]) != manifest.shape:
        raise CheckpointError(f"the exemplars have shape {tuple(kept.shape[1:])}, not {manifest.shape}")
    if manifest.pixels is None:  # a folder of format 1 or older
        manifest = manifest.model_copy(update={"pixels": format_of(kept)})
    return Model(manifest, learner, validation_images)


def make_learner(manifest: Manifest, settings: ITAMLSettings, compute: Compute) -> GradientLearner:
    """Build a learner that has learned nothing."""
    assert manifest.shape is not None
    network = build_classifier(settings.backbone, shape=manifest.shape, seed=manifest.options.seed)
    return GradientLearner(ITAML, network, settings=settings, seeds=Seeds.of(manifest.options.seed), compute=compute)


def _check_network(backbone: str, shape: Shape, weights: Mapping[str, Any]) -> None:
    """Refuse a state without the weights of its network, before memory is taken for them.

    A few bytes of a record can name a network and an image size that need any amount of memory.
    """
    try:
        with torch.device("meta"):
            expected = build_classifier(backbone, shape=shape, seed=0).state_dict()
    except (RuntimeError, NotImplementedError):  # a network that cannot be described without being made
        return
    for name, value in expected.items():
        found = weights.get(name)
        if not name.startswith("head.") and (not isinstance(found, Tensor) or found.shape != value.shape):
            raise CheckpointError(f"the state has no weights {name} of {backbone} for images of {shape}")


def _validation(saved: Mapping[str, Any], shape: Shape, classes: int) -> dict[ClassId, Tensor]:
    validation_images = {int(label): pixels for label, pixels in saved.items()}
    for label, pixels in validation_images.items():
        if not 0 <= label < classes or not isinstance(pixels, Tensor) or tuple(pixels.shape[1:]) != shape:
            raise CheckpointError(f"the validation images of class {label} are not images of the model")
    return validation_images
