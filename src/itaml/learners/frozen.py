"""`FrozenLearner`: any learner on the frozen features of a pretrained backbone.

The features of an image are computed once and cached by its content. The learner inside sees them as images with one
pixel and a channel per feature, so every method can be used: Algorithm 1 then trains the head alone, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from itaml import distributed
from itaml.config import Compute
from itaml.data.images import ClassId, ImageSet, Shape
from itaml.data.loader import iterate
from itaml.data.ownership import own_positions
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError, SettingsError
from itaml.events import Callback, ignore
from itaml.learners.api import Editable, KnowsUnknown, Learner, Prediction, Scoring
from itaml.learners.components.feature_cache import FeatureCache, user_cache
from itaml.learners.compute import pick_device
from itaml.memory.buffer import Memory
from itaml.models import backbone_traits
from itaml.models.features import FeatureExtractor, Transform, open_extractor
from itaml.models.task_map import TaskMap
from itaml.storage import State

BATCH = 64  # images that are decoded and looked up together


class FrozenLearner:
    """A learner whose images are replaced by their features.

    Args:
        learner: learns from features of shape (features, 1, 1).
        extractor: computes the features.
        shape: of the images.
        cache: features of images seen before.
    """

    def __init__(
        self, learner: Learner, extractor: FeatureExtractor, *, shape: Shape, cache: FeatureCache | None = None
    ) -> None:
        self.learner, self.extractor, self.shape = learner, extractor, shape
        self.cache = cache or FeatureCache(None)

    @property
    def callback(self) -> Callback:
        """Called with every event of training."""
        callback: Callback = getattr(self.learner, "callback", ignore)
        return callback

    @callback.setter
    def callback(self, callback: Callback) -> None:
        self.learner.callback = callback  # type: ignore[attr-defined]

    @property
    def memory(self) -> Memory:
        """The exemplars of the learner inside: features."""
        memory: Memory = self.learner.memory  # type: ignore[attr-defined]
        return memory

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""
        return self._scoring.task_map

    @property
    def _scoring(self) -> Scoring:
        assert isinstance(self.learner, Scoring), "every learner of the package can be scored"
        return self.learner

    def features(self, images: Tensor) -> Tensor:
        """Return the features of images as images with one pixel (n, features, 1, 1).

        Raises:
            DataError: the images are of another shape.
        """
        if tuple(images.shape[1:]) != self.shape:
            expected, found = (" x ".join(map(str, shape)) for shape in (self.shape, images.shape[1:]))
            raise DataError(f"the model takes images of shape {expected}, these are {found}")
        found_features = self.cache.features(images, self.extractor.cache_key, self.extractor)
        return _rounded(found_features)[:, :, None, None]

    def learn(self, task: Task) -> None:
        """Learn a task from the features of its images (see `Learner.learn`)."""
        train, rows = self._feature_set(task.train)
        keys = None if task.keys is None else task.keys[rows]
        self.learner.learn(Task(task.index, task.classes, train, keys))

    def _feature_set(self, images: ImageSet) -> tuple[ImageSet, Tensor]:
        """Return the features of images that can be read, and their positions (k,)."""
        if images.shape != self.shape:
            self.features(torch.empty(0, *images.shape, dtype=torch.uint8))
        return self.feature_set(images)

    def feature_set(
        self,
        images: ImageSet,
        features_of: Callable[[Tensor], Tensor] | None = None,
        on_batch: Callable[[Tensor], None] | None = None,
    ) -> tuple[ImageSet, Tensor]:
        """Return the features of images, and which of them could be read (k,).

        All processes of a run must call this together: each reads its part of the images, and gets the features of all.

        Args:
            images: of the shape that `features` takes.
            features_of: maps pixels to features; `features` if not given.
            on_batch: called with the positions of the images of each batch.
        """
        found = [(torch.zeros(0, self.extractor.features, 1, 1), torch.zeros(0, dtype=torch.int64))]
        for pixels, rows in iterate(images.numbered(), own_positions(images), batch_size=BATCH):
            found.append(((features_of or self.features)(pixels), rows))
            if on_batch is not None:
                on_batch(rows)
        mine = tuple(torch.cat(column) for column in zip(*found, strict=True))
        features, kept = (torch.cat(column) for column in zip(*distributed.gather_objects(mine), strict=True))
        return ImageSet.from_arrays(features[kept.argsort()], images.labels[kept.sort().values]), kept.sort().values

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        """Predict samples (see `Learner.predict`)."""
        if not len(images):
            raise DataError("there are no samples to predict")
        return self.learner.predict(self.features(images), continua)

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the score of each class seen (n, columns)."""
        return self._scoring.class_scores(self.features(images))

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's score for each task (n, tasks)."""
        return self._scoring.task_scores(class_scores)

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of the columns of a task (n, size), after adapting to it."""
        return self._scoring.adapted_scores(self.features(images), class_scores, task)

    @property
    def unknown_threshold(self) -> float | None:
        """Score above which a sample is unknown; None if the learner inside cannot say (see `KnowsUnknown`)."""
        return self.learner.unknown_threshold if isinstance(self.learner, KnowsUnknown) else None

    def unknown_scores(self, images: Tensor) -> Tensor:
        """Return how little each sample looks like a known class (n,), if the learner inside can say."""
        assert isinstance(self.learner, KnowsUnknown), "ask `knows_unknown` first"
        return self.learner.unknown_scores(self.features(images))

    # What corrections use (see `Editable`).

    @property
    def _editable(self) -> Editable:
        if not isinstance(self.learner, Editable):
            raise SettingsError(f"a {type(self.learner).__name__} cannot change what it has learned")
        return self.learner

    def forget_class(self, class_id: ClassId) -> None:
        """Remove a class with its exemplars."""
        self._editable.forget_class(class_id)

    def merge_classes(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one."""
        self._editable.merge_classes(source, target)

    def remove_images(self, images: Tensor, labels: Tensor) -> None:
        """Undo the learning of images under their classes."""
        self._editable.remove_images(self.features(images), labels)

    def renumber_classes(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id."""
        self._editable.renumber_classes(ids)

    def state_dict(self) -> State:
        """Return the state of the learner inside, and which features it was trained on."""
        inner = _exemplars_as(self.learner.state_dict(), torch.float16)
        return {"features": self.extractor.extraction.to_json(), "inner": inner}

    def load_state_dict(self, state: State) -> None:
        """Restore a state.

        Raises:
            CheckpointError: it was trained on other features.
        """
        expected, found = self.extractor.extraction.to_json(), state.get("features")
        if not isinstance(found, dict):
            raise CheckpointError("this state was not trained on the features of a pretrained backbone")
        for name, value in expected.items():
            if found.get(name) != value:
                raise CheckpointError(
                    f"this model was trained with {name} {found.get(name)!r}; here it is {value!r}. "
                    "Use the backbone and weights that it was made with"
                )
        self.learner.load_state_dict(_exemplars_as(state["inner"], torch.float32))


class FeatureSettings(Protocol):
    """The settings of a method that can learn from features."""

    @property
    def backbone(self) -> str:
        """Its name."""

    @property
    def feature_flip(self) -> bool:
        """Average the features of each image and of its horizontal flip."""

    @property
    def feature_transform(self) -> Transform:
        """Applied to the features."""


def on_features(
    settings: FeatureSettings, make: Callable[[Shape], Learner], *, shape: Shape, compute: Compute | None
) -> Learner:
    """Return a learner of images of `shape`, or of their features if the backbone is pretrained.

    Args:
        settings: the backbone and how its features are computed.
        make: makes a learner for images, or features, of a shape.
        shape: of the images.
        compute: where the backbone computes.
    """
    if not backbone_traits(settings.backbone).pretrained:
        return make(shape)
    extractor = open_extractor(
        settings.backbone,
        flip=settings.feature_flip,
        transform=settings.feature_transform,
        device=pick_device(compute or Compute()),
    )
    return FrozenLearner(make((extractor.features, 1, 1)), extractor, shape=shape, cache=user_cache())


def _rounded(features: Tensor) -> Tensor:
    """Return features rounded to half precision, so that exemplars are saved in half the room without a change."""
    limit = torch.finfo(torch.float16).max
    return features.clamp(-limit, limit).half().float()


def _exemplars_as(state: State, dtype: torch.dtype) -> State:
    """Return the state of a learner of features with its exemplars in another number format."""
    memory = state.get("memory")
    if not isinstance(memory, dict) or not isinstance(memory.get("images"), dict):
        return state
    images = {label: features.to(dtype) for label, features in memory["images"].items()}
    return {**state, "memory": {**memory, "images": images}}
