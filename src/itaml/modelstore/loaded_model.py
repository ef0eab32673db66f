"""A model in memory: a learner of any method, its validation samples, and what is known about both.

The store uses the contract of `learners.api`. A learner on frozen features is taken apart: images become features
once, and everything else (training, validation, prediction) works on these *samples*. Other learners' samples are the
images themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from itaml.config import Compute, Seeds, Settings, build
from itaml.data.images import ClassId, ImageSet, Shape
from itaml.errors import CheckpointError, ItamlError, SettingsError
from itaml.events import Callback, Event, ignore
from itaml.learners import LEARNERS
from itaml.learners.api import KnowsUnknown, Learner, LearnerFactory, Traits, check_processes
from itaml.learners.frozen import FrozenLearner
from itaml.learners.settings import TrainingSettings
from itaml.memory.buffer import Memory
from itaml.models import backbone_traits
from itaml.models.backbones.program_trust import check_programs
from itaml.models.classifier import build_classifier
from itaml.models.task_map import TaskMap
from itaml.modelstore.confidence import UNCALIBRATED, Confidence
from itaml.modelstore.learned_images import NO_IMAGES, LearnedImages
from itaml.modelstore.manifest import Manifest
from itaml.modelstore.pixels import format_of
from itaml.modelstore.validation import ValidationImages
from itaml.storage import State


@dataclass(frozen=True)
class SamplesComputed(Event):
    """The features of some of the images to learn from have been computed."""

    done: int
    total: int


@dataclass(frozen=True, eq=False)
class Model:
    """A learner, its validation samples, and what is known about both."""

    manifest: Manifest
    learner: Learner | None  # None before the first learn
    validation_images: ValidationImages  # as samples: images, or their features
    confidence: Confidence = UNCALIBRATED  # of a learner that does not calibrate itself
    files: Mapping[str, bytes] = field(default_factory=dict)  # stored images that are not on disk yet, by SHA-256
    learned: LearnedImages = NO_IMAGES  # of learners of sums

    @property
    def ready(self) -> Learner:
        """The learner of a model that has learned something."""
        assert self.learner is not None
        return self.learner

    @property
    def core(self) -> Learner:
        """What learns and predicts samples: the learner itself, or the one on its features."""
        return self.ready.learner if isinstance(self.ready, FrozenLearner) else self.ready

    @property
    def unknown_threshold(self) -> float:
        """Score above which an image is unknown; infinite: none is."""
        core = None if self.learner is None else self.core
        own = core.unknown_threshold if isinstance(core, KnowsUnknown) else None
        return self.confidence.unknown_threshold if own is None else own

    @property
    def memory(self) -> Memory | None:
        """The exemplars of a learner that keeps images as they are; others' are files of the store."""
        return None if self.learner is None else image_memory(self.learner)

    @property
    def task_map(self) -> TaskMap:
        """Which class was learned in which task."""
        ids = {name: class_id for class_id, name in enumerate(self.manifest.classes)}
        return TaskMap(tuple(tuple(ids[name] for name in task.classes) for task in self.manifest.tasks))

    @property
    def exemplar_counts(self) -> dict[ClassId, int]:
        """How many exemplars of each class are kept."""
        if self.memory is not None:
            return {label: self.memory.count(label) for label in self.memory.classes}
        counts: dict[ClassId, int] = defaultdict(int)
        for image in self.manifest.stored_images:
            counts[image.label] += image.kind == "exemplar"
        return dict(counts)

    def samples(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) as the learner's samples; features of float images are those of their bytes."""
        if not isinstance(self.learner, FrozenLearner):
            return images
        if images.is_floating_point():  # 0..1, brought to the model's shape
            images = (images * 255).round().clamp(0, 255).to(torch.uint8)
        return self.learner.features(images)

    def sample_set(self, images: ImageSet, callback: Callback = ignore) -> tuple[ImageSet, Tensor]:
        """Return images as samples, and which of them could be read (k,); each is read once if samples are features."""
        if not isinstance(self.learner, FrozenLearner):
            return images, torch.arange(len(images))
        return self.learner.feature_set(
            images,
            self.samples,
            lambda rows: callback(SamplesComputed(int(rows.max()) + 1 if len(rows) else 0, len(images))),
        )

    def state(self) -> State:
        """Return the tensors to save."""
        images = {str(label): pixels for label, pixels in self.validation_images.items()}
        if isinstance(self.learner, FrozenLearner):
            images = {label: features.half() for label, features in images.items()}  # exact: see `FrozenLearner`
        confidence = self.confidence.state_dict()
        state = {"learner": self.ready.state_dict(), "validation": images, "confidence": confidence}
        return state | ({"learned": self.learned.state_dict()} if len(self.learned.labels) else {})


def image_memory(learner: Learner) -> Memory | None:
    """Return the exemplar memory of a learner that keeps images as they are, None for every other learner."""
    memory = getattr(learner, "memory", None)
    return memory if isinstance(memory, Memory) and memory.budget and not isinstance(learner, FrozenLearner) else None


def factory(method: str) -> LearnerFactory:
    """Return what makes the learners of a method.

    Raises:
        UnknownNameError: there is no such method.
        SettingsError: it cannot make learners.
    """
    kind: LearnerFactory = LEARNERS.load(method)
    if getattr(kind, "from_settings", None) is None:
        raise SettingsError(f"{method} has no classmethod from_settings(settings, *, shape, seeds, compute)")
    check_processes(method, getattr(kind, "traits", Traits()))
    return kind


def restored(what: str, manifest: Manifest, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes; `what` names the version in messages.

    Raises:
        ItamlError: the version cannot be restored, in one sentence, whatever it holds.
    """
    try:
        check_programs(manifest.backbones)
        return restore(manifest, state, compute)
    except ItamlError as error:
        raise type(error)(f"{what} cannot be restored: {error}") from error
    except Exception as error:  # the checksums fit, so somebody wrote this; it may hold anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{what} is not a model ({said:.200})") from error


def restore(manifest: Manifest, state: State | None, compute: Compute, like: Learner | None = None) -> Model:
    """Build the learner that a version describes; `like` lends the backbone that it has loaded.

    Raises:
        CheckpointError: the state is not that of such a learner.
        UsageError: the record names a method, a setting or a network that does not exist here.
    """
    if state is None or manifest.shape is None:
        return Model(manifest, None, {})
    settings = build_settings(manifest)
    if isinstance(settings, TrainingSettings) and _has_plain_network(manifest.method, settings):
        _check_network(settings.backbone, manifest.shape, state["learner"]["model"])
    learner = make_learner(manifest, settings, compute, like=like)
    learner.load_state_dict(state["learner"])
    task_map = getattr(learner, "task_map", None)
    if isinstance(task_map, TaskMap):
        _check_tasks(manifest, task_map.tasks)
    shape, frozen = manifest.shape, isinstance(learner, FrozenLearner)
    if isinstance(learner, FrozenLearner):
        shape = (learner.extractor.features, 1, 1)
    validation_images = _validation(state.get("validation") or {}, shape, len(manifest.classes), frozen=frozen)
    memory = image_memory(learner)
    exemplars = None if memory is None else memory.exemplars()
    kept = torch.empty(0, *manifest.shape) if exemplars is None else exemplars.load()[0]
    if tuple(kept.shape[1:]) != manifest.shape:
        raise CheckpointError(f"the exemplars have shape {tuple(kept.shape[1:])}, not {manifest.shape}")
    if manifest.pixels is None:  # a folder of format 1 or older
        manifest = manifest.model_copy(update={"pixels": format_of(kept)})
    learned = LearnedImages.from_state(state.get("learned"), classes=len(manifest.classes))
    confidence = Confidence.from_state(state.get("confidence"))
    return Model(manifest, learner, validation_images, confidence, learned=learned)


def build_settings(manifest: Manifest, **changes: Any) -> Settings:
    """Return the settings of a model's learner, with some of them changed."""
    return build(factory(manifest.method).Settings, {**manifest.settings, **changes})


def make_learner(manifest: Manifest, settings: Settings, compute: Compute, like: Learner | None = None) -> Learner:
    """Build a learner that has learned nothing; `like` lends the backbone that it has loaded."""
    assert manifest.shape is not None
    seeds = Seeds.of(manifest.options.seed)
    learner = factory(manifest.method).from_settings(settings, shape=manifest.shape, seeds=seeds, compute=compute)
    if isinstance(like, FrozenLearner) and isinstance(learner, FrozenLearner):
        learner.cache = like.cache
    return learner


def _has_plain_network(method: str, settings: TrainingSettings) -> bool:
    """Say whether the weights of a model are those of its backbone: not features, nor a network of the method's own."""
    return factory(method).traits.supports_compile and not backbone_traits(settings.backbone).pretrained


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


def _check_tasks(manifest: Manifest, tasks: Sequence[Sequence[ClassId]]) -> None:
    """Refuse a state whose tasks are not those of the record."""
    count = len(manifest.classes)
    if sorted(label for task in tasks for label in task) != list(range(count)):
        raise CheckpointError(f"the state has other classes than the {count} of the record")
    named = [sorted(manifest.classes[label] for label in task) for task in tasks]
    if named != [sorted(task.classes) for task in manifest.tasks]:
        raise CheckpointError("the state has other tasks than the record")


def _validation(saved: Mapping[str, Any], shape: Shape, classes: int, *, frozen: bool) -> dict[ClassId, Tensor]:
    found = {int(label): pixels for label, pixels in saved.items()}
    for label, pixels in found.items():
        if not 0 <= label < classes or not isinstance(pixels, Tensor) or tuple(pixels.shape[1:]) != shape:
            raise CheckpointError(f"the validation images of class {label} are not images of the model")
    return {label: pixels.float() for label, pixels in found.items()} if frozen else found
