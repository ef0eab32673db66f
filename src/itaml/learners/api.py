"""The contract between a learner and everything that uses one.

A learner is registered under a name in `itaml.learners.LEARNERS`, or by an entry point in the group `itaml.learners`.
What is registered is a `LearnerFactory`: a class (or any object) with

* `Settings`: a pydantic class of settings, a subclass of `itaml.config.Settings`;
* `traits`: what the learner needs and supports, as data;
* `from_settings(settings, shape=..., seeds=..., compute=...)`: returns a new learner that has learned nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

from torch import Tensor

from itaml import distributed
from itaml.config import Compute, Seeds, Settings
from itaml.data.images import ClassId, Shape
from itaml.data.stream import Task
from itaml.errors import SettingsError
from itaml.models.task_map import TaskMap
from itaml.storage import State


@dataclass(frozen=True)
class Traits:
    """What a method needs and supports; the runner, the model store and the sweeps read this instead of the class."""

    memory: Literal["exemplars", "none", "everything"] = "exemplars"  # what it keeps of the images it has learned
    needs_teacher: bool = False  # keeps a copy of the model as it was before the task
    rehearses: bool = True  # trains on the exemplars together with the new images
    trains_gradients: bool = True  # trains by gradient steps
    supports_compile: bool = True  # trains by one pass through the whole network
    supports_recipe: bool = True  # distill, class balancing and progressive resizing can be added to its loss
    one_process: bool = False  # cannot share its work with other processes: refuses torchrun
    can_remove_classes: bool | None = None  # None: unless it saves something besides weights and exemplars
    read_in_training: frozenset[str] = field(default=frozenset())  # settings of inference that training depends on

    @property
    def uses_memory(self) -> bool:
        """Whether the setting `memory` is the budget of its exemplars."""
        return self.memory == "exemplars"


def check_processes(method: str, traits: Traits) -> None:
    """Refuse several processes for a method that cannot use them.

    Raises:
        SettingsError: the method runs on one process.
    """
    if traits.one_process and distributed.size() > 1:
        raise SettingsError(f"{method} runs on one process: leave out torchrun")


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a learner predicts for some samples."""

    classes: Tensor  # (n,) class ids
    tasks: Tensor | None  # (n,) task of each sample's continuum; None from a learner that does not predict tasks
    probabilities: Tensor  # (n, columns) probability of each class seen
    columns: tuple[ClassId, ...]  # class of each column of `probabilities`
    unknown: Tensor | None = None  # (n,) whether a sample is none of the classes; None from a learner that cannot say
    unknown_scores: Tensor | None = None  # (n,) how little a sample looks like a known class; what `unknown` rests on

    def top(self, k: int) -> list[list[tuple[ClassId, float]]]:
        """Return for each sample its k most probable classes, the predicted class first."""
        ranking = []
        for predicted, row in zip(self.classes.tolist(), self.probabilities.tolist(), strict=True):
            ranked = sorted(zip(self.columns, row, strict=True), key=lambda pair: (pair[0] != predicted, -pair[1]))
            ranking.append(ranked[:k])
        return ranking


class Learner(Protocol):
    """Learns tasks one after another and predicts. That is all that a learner must do."""

    def learn(self, task: Task) -> None:
        """Learn a task; a learner restored in the middle of this task continues where it was."""

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        """Predict samples (n, c, h, w).

        Args:
            images: the samples.
            continua: number of each sample's continuum (n,), from 0 without gaps; samples of one continuum share one
                unknown task. If not given, all samples are one continuum.
        """

    def state_dict(self) -> State:
        """Return everything that `load_state_dict` needs to continue to the same bits."""

    def load_state_dict(self, state: State) -> None:
        """Restore a state."""


class LearnerFactory(Protocol):
    """What is registered under a method's name."""

    Settings: ClassVar[type[Settings]]
    traits: ClassVar[Traits]

    @classmethod
    def from_settings(cls, settings: Any, *, shape: Shape, seeds: Seeds, compute: Compute | None = None) -> Learner:
        """Return a learner for images of `shape` that has learned nothing."""


@runtime_checkable
class Scoring(Protocol):
    """What a learner may offer besides, so that all protocols are evaluated in one pass over the test images."""

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the generic model's score of each class seen (n, columns)."""

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's evidence for each task (n, tasks), to be averaged over a continuum."""

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of the columns of `task` (n, size), after adapting to it if the learner does."""


@runtime_checkable
class DistanceScoring(Protocol):
    """What a `Scoring` learner may offer besides: a term of its task scores that needs the images themselves."""

    def task_distances(self, images: Tensor) -> Tensor | None:
        """Return what is added to each sample's task scores (n, tasks), None if nothing is."""


def task_scores(learner: Scoring, class_scores: Tensor, images: Tensor) -> Tensor:
    """Return each sample's score for each task (n, tasks), with all terms that the learner has."""
    scores = learner.task_scores(class_scores)
    distances = learner.task_distances(images) if isinstance(learner, DistanceScoring) else None
    return scores if distances is None else scores + distances


@runtime_checkable
class Editable(Protocol):
    """What a learner may offer besides, so that what was learned can be corrected without learning it all again.

    A task of which all classes are gone is gone too: the tasks after it move up by one.
    """

    def forget_class(self, class_id: ClassId) -> None:
        """Remove a class with its exemplars; the other classes keep their ids and their scores.

        Raises:
            DataError: the class is not known.
            SettingsError: the method cannot do this.
        """

    def merge_classes(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one: the images of `source` are of `target` from now on (see `forget_class` for errors)."""

    def remove_images(self, images: Tensor, labels: Tensor) -> None:
        """Undo the learning of images (n, c, h, w) under their class ids (n,), as far as the learner can.

        Exact for learners of sums. A learner trained by gradient steps does not train on them again.

        Raises:
            DataError: they are all that is known of a class.
        """

    def renumber_classes(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id; the order of tasks and columns stays."""


@runtime_checkable
class KnowsUnknown(Protocol):
    """What a learner may offer besides: say which samples are none of the classes. Its probabilities are calibrated."""

    @property
    def unknown_threshold(self) -> float | None:
        """Score above which a sample is unknown, infinite: never; None if the learner inside this one cannot say."""

    def unknown_scores(self, images: Tensor) -> Tensor:
        """Return how little each sample looks like a known class (n,)."""


def knows_unknown(learner: Learner) -> TypeGuard[KnowsUnknown]:
    """Return whether a learner, or the one inside it, says which samples are none of the classes."""
    return isinstance(learner, KnowsUnknown) and learner.unknown_threshold is not None
