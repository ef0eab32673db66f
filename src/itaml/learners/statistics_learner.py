"""`StatisticsLearner`: classifiers that follow exactly from sums of features, without gradient steps.

Learning adds the counts, class sums and second moment of new images to what is known (`components.statistics`). The
head is then solved again, so the result does not depend on the order in which classes and images arrived. Exemplars are
kept for what the sums cannot say: the shrinkage, the temperature of the probabilities, and how known images score. They
are chosen by their content, so that this does not depend on the order either, and it is fitted once per learn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from itaml import seeding
from itaml.config import Seeds
from itaml.data.images import ClassId, Shape
from itaml.data.ownership import own_batches
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError
from itaml.inference.predictor import two_stages
from itaml.inference.task_prediction import log_posteriors, max_responses
from itaml.learners.api import Prediction
from itaml.learners.components.head_fit import HeadFit
from itaml.learners.components.statistics import (
    collect,
    empty_statistics,
    merge_all,
    remove_class,
    rename_class,
    renumber,
    subtract,
)
from itaml.learners.components.statistics_state import statistics_from, statistics_state
from itaml.learners.statistics_solver import Head, Solver, StatisticsSettings
from itaml.memory.buffer import Memory
from itaml.models.task_map import TaskMap
from itaml.storage import State


class StatisticsLearner:
    """A learner without gradient steps.

    Args:
        solver: the method.
        settings: budget and selection of the exemplars.
        shape: of the images, or (features, 1, 1) behind a backbone.
        seeds: `seeds.memory` chooses exemplars.
    """

    def __init__(self, solver: Solver, settings: StatisticsSettings, *, shape: Shape, seeds: Seeds) -> None:
        self.solver, self.settings, self.shape, self.seeds = solver, settings, shape, seeds
        self.task_map = TaskMap()
        self.memory = Memory(budget=settings.memory, selection=settings.selection)
        self.statistics = empty_statistics(solver.width(math.prod(shape)))
        self._fit: HeadFit | None = None
        self._head: Head | None = None

    def learn(self, task: Task) -> None:
        """Add a task's images to the statistics.

        Raises:
            DataError: the task does not fit what was learned before.
            SettingsError: the memory is smaller than the number of classes.
        """
        if not len(task.train):
            raise DataError(f"task {task.index} has no training images")
        if task.train.shape != self.shape:
            self._check(torch.empty(0, *task.train.shape))
        task_map = self.task_map.grown(task.classes) if task.classes else self.task_map
        task_map.column_of(task.train.labels)
        self.memory.check_room(len(task_map.classes))
        own = (task.train.batch(positions) for positions in own_batches(task.train, 500))
        collected = (collect(self.projected(pixels), labels) for pixels, labels in own)
        self.task_map, self.statistics = task_map, merge_all(self.statistics, collected)
        if self.memory.budget:
            generator = seeding.generator(self.seeds.memory, "memory", task.index)
            self.memory.add(task.train, task_map.classes, generator=generator, features=_flat, keys=task.keys)
        self.forget_fit()

    def forget_fit(self) -> None:
        """Solve again when the head is next needed; call it after a change of `statistics` or `memory`."""
        self._fit = self._head = None

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        """Predict samples (see `Learner.predict`).

        Raises:
            DataError: nothing was learned yet, there are no samples, or they are of another shape.
        """
        if not len(images):
            raise DataError("there are no samples to predict")
        features = self._checked(images)
        scores, unknown_scores = self._class_scores(features), self._unknown_scores(features)
        if continua is None:
            continua = torch.zeros(len(images), dtype=torch.int64)
        classes, tasks, probabilities = two_stages(
            scores,
            continua,
            self.task_map,
            task_scores=self.task_scores(scores),
            task_evidence=self.task_evidence(scores),
            adapted=lambda rows, task: scores[rows][:, self.task_map.columns(task)],
        )
        unknown = unknown_scores > self.unknown_threshold
        return Prediction(classes, tasks, probabilities, self.task_map.classes, unknown, unknown_scores)

    def class_scores(self, images: Tensor) -> Tensor:
        """Return calibrated logits (n, columns): their softmax is a probability (see `predict` for errors)."""
        return self._class_scores(self._checked(images))

    def unknown_scores(self, images: Tensor) -> Tensor:
        """Return how little each sample looks like a known class (n,); see `KnowsUnknown`, and `predict` for errors."""
        return self._unknown_scores(self._checked(images))

    @property
    def unknown_threshold(self) -> float:
        """Above this score a sample is unknown; infinite where there are too few images to calibrate it."""
        return -self.fit.detector.threshold

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's score for each task (n, tasks): the largest log-probability among its classes.

        A continuum of one sample then gets the most probable of all classes.
        """
        return max_responses(class_scores.double().log_softmax(1), self.task_map)

    def task_evidence(self, class_scores: Tensor) -> Tensor:
        """Return each sample's log-evidence for each task (n, tasks), which adds up over a continuum."""
        return log_posteriors(class_scores, self.task_map)

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of the columns of a task (n, size); the head is exact, so nothing is adapted."""
        return class_scores[:, self.task_map.columns(task)]

    @property
    def fit(self) -> HeadFit:
        """What was chosen on left-out exemplars, at the first use after learning."""
        if self._fit is None:
            self._fit = self.solver.fit(self.statistics, self.exemplar_features())
        return self._fit

    def _solved(self) -> Head:
        if self._head is None:
            self._head = self.solver.head(self.statistics, self.fit)
        return self._head

    def _class_scores(self, features: Tensor) -> Tensor:
        head = self._solved()
        order = torch.tensor([head.classes.index(class_id) for class_id in self.task_map.classes])
        return (head.scores(features)[:, order] / self.fit.temperature).float()

    def _unknown_scores(self, features: Tensor) -> Tensor:
        return -self.fit.detector.score(self._solved().signals(features))

    def _checked(self, images: Tensor) -> Tensor:
        if not len(self.task_map):
            raise DataError("nothing has been learned yet")
        self._check(images)
        return self.projected(images)

    def exemplar_features(self) -> tuple[Tensor, Tensor]:
        """Return what the statistics were collected of, for the exemplars (n, width), and their classes (n,)."""
        kept = self.memory.exemplars()
        images, labels = (torch.zeros(0, *self.shape), torch.zeros(0).long()) if kept is None else kept.load()
        return self.projected(images), labels

    def projected(self, images: Tensor) -> Tensor:
        """Return what the statistics are collected of (n, width)."""
        pixels = images.flatten(1)
        return self.solver.project(pixels.double() / 255 if pixels.dtype == torch.uint8 else pixels.double())

    def _check(self, images: Tensor) -> None:
        if tuple(images.shape[1:]) != self.shape:
            expected, found = (" x ".join(map(str, shape)) for shape in (self.shape, images.shape[1:]))
            raise DataError(f"the model takes images of shape {expected}, these are {found}")

    # What corrections use (see `Editable`).

    def forget_class(self, class_id: ClassId) -> None:
        """Remove a class.

        If all its images are exemplars, the result is that of never having learned it. Otherwise its count and mean are
        removed, and the covariance within classes stays as it is.
        """
        task_map = self.task_map.without(class_id)
        kept = self.memory.exemplars([class_id])
        whole = kept is not None and len(kept) == int(self.statistics.counts[self.statistics.row(class_id)])
        features = self.projected(kept.load()[0]) if kept is not None and whole else None
        self.statistics = remove_class(self.statistics, class_id, features)
        self.memory.remove(class_id)
        self.task_map = task_map
        self.forget_fit()

    def merge_classes(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one, exactly."""
        self.task_map.column_of(torch.tensor([target]))
        task_map = self.task_map.without(source)
        self.statistics = rename_class(self.statistics, source, target)
        self.memory.merge(source, target)
        self.task_map = task_map
        self.forget_fit()

    def remove_images(self, images: Tensor, labels: Tensor) -> None:
        """Undo the learning of images under their classes, exactly."""
        self._check(images)
        statistics = subtract(self.statistics, collect(self.projected(images), labels))
        gone = set(self.statistics.classes).difference(statistics.classes)
        if gone:
            raise DataError(f"these are all images of class {min(gone)}; forget the class, or merge it with another")
        self.memory.discard(images, labels)
        self.statistics = statistics
        self.forget_fit()

    def renumber_classes(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id."""
        self.memory.renumber(ids)
        self.task_map, self.statistics = self.task_map.renumbered(ids), renumber(self.statistics, ids)
        self.forget_fit()

    def state_dict(self) -> State:
        """Return everything that was learned."""
        return {
            "learner": self.solver.name,
            "table": [list(classes) for classes in self.task_map.tasks],
            **statistics_state(self.statistics),
            "fit": self.fit.state_dict() if self.statistics.classes else None,
            "memory": self.memory.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state.

        Raises:
            CheckpointError: it is of another method, or of other features.
        """
        if state.get("learner") != self.solver.name:
            raise CheckpointError(f"this state is of {state.get('learner')}, not of {self.solver.name}")
        self.statistics = statistics_from(state, features=self.statistics.features)
        self.task_map = TaskMap(tuple(tuple(classes) for classes in state["table"]))
        self.memory.load_state_dict(state["memory"])
        self.forget_fit()
        if "weights" in (state.get("fit") or {}):  # older fits are of other signals: fitted again when they are needed
            self._fit = HeadFit.from_state(state["fit"])


def _flat(images: Tensor) -> Tensor:
    return images.flatten(1).float()
