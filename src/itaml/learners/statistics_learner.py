"""`StatisticsLearner`: classifiers that follow exactly from sums of features, without gradient steps.

Learning adds the counts, class sums and second moment of new images to what is known (`components.statistics`). The
head is then solved anew, so the result does not depend on the order in which classes and images arrived. Exemplars are
kept for what the sums cannot say: the shrinkage, the temperature of the probabilities, and the scores of known images.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from itaml import seeding
from itaml.config import Seeds
from itaml.data.images import ClassId, Shape
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError
from itaml.inference.predictor import two_stages
from itaml.inference.task_prediction import log_posteriors, max_responses
from itaml.learners.api import Prediction
from itaml.learners.components.calibration import fit_temperature
from itaml.learners.components.linear_heads import LinearHead
from itaml.learners.components.statistics import (
    FeatureStatistics,
    collect,
    empty_statistics,
    merge,
    remove_class,
    rename_class,
    renumber,
    subtract,
)
from itaml.learners.statistics_solver import Solver, StatisticsSettings
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
        self.statistics = empty_statistics(solver.width(_size(shape)))
        self._solved: tuple[LinearHead, float] | None = None

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
        statistics = self.statistics
        for pixels, labels in task.train.batches(500):
            statistics = merge(statistics, collect(self._projected(pixels), labels))
        self.task_map, self.statistics, self._solved = task_map, statistics, None
        if self.memory.budget:
            generator = seeding.generator(self.seeds.memory, "memory", task.index)
            self.memory.add(task.train, task_map.classes, generator=generator, features=lambda x: x.flatten(1).float())

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        """Predict samples (see `Learner.predict`).

        Raises:
            DataError: nothing was learned yet, there are no samples, or they are of another shape.
        """
        if not len(images):
            raise DataError("there are no samples to predict")
        scores = self.class_scores(images)
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
        return Prediction(classes, tasks, probabilities, self.task_map.classes)

    def class_scores(self, images: Tensor) -> Tensor:
        """Return calibrated logits (n, columns): their softmax is a probability.

        Raises:
            DataError: nothing was learned yet, or the images are of another shape.
        """
        if not len(self.task_map):
            raise DataError("nothing has been learned yet")
        self._check(images)
        head, temperature = self._head()
        scores = head(self._projected(images))  # (n, classes), classes sorted
        order = torch.tensor([head.classes.index(class_id) for class_id in self.task_map.classes])
        return (scores[:, order] / temperature).float()

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

    def _head(self) -> tuple[LinearHead, float]:
        """Return the head and the temperature, solved at the first call after learning."""
        if self._solved is None:
            exemplars = self._exemplars()
            head = self.solver.solve(self.statistics, exemplars)
            self._solved = head, self._temperature(head, exemplars)
        return self._solved

    def _temperature(self, head: LinearHead, exemplars: tuple[Tensor, Tensor] | None) -> float:
        if exemplars is None or len(head.classes) < 2:
            return 1.0
        scores = self.solver.left_out(self.statistics, exemplars)
        if scores is None:
            return 1.0
        columns = torch.tensor([head.classes.index(label) for label in exemplars[1].tolist()])
        return fit_temperature(scores, columns)

    def _exemplars(self) -> tuple[Tensor, Tensor] | None:
        kept = self.memory.exemplars()
        if kept is None:
            return None
        images, labels = kept.load()
        return self._projected(images), labels

    def _projected(self, images: Tensor) -> Tensor:
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
        features = self._projected(kept.load()[0]) if kept is not None and whole else None
        self.statistics = remove_class(self.statistics, class_id, features)
        self.memory.remove(class_id)
        self.task_map, self._solved = task_map, None

    def merge_classes(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one, exactly."""
        self.task_map.column_of(torch.tensor([target]))
        task_map = self.task_map.without(source)
        self.statistics = rename_class(self.statistics, source, target)
        self.memory.merge(source, target)
        self.task_map, self._solved = task_map, None

    def remove_images(self, images: Tensor, labels: Tensor) -> None:
        """Undo the learning of images under their classes, exactly."""
        self._check(images)
        statistics = subtract(self.statistics, collect(self._projected(images), labels))
        gone = set(self.statistics.classes).difference(statistics.classes)
        if gone:
            raise DataError(f"these are all images of class {min(gone)}; forget the class, or merge it with another")
        self.memory.discard(images, labels)
        self.statistics, self._solved = statistics, None

    def renumber_classes(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id."""
        self.memory.renumber(ids)
        self.task_map, self.statistics = self.task_map.renumbered(ids), renumber(self.statistics, ids)
        self._solved = None

    def state_dict(self) -> State:
        """Return everything that was learned."""
        s = self.statistics
        rows, columns = torch.triu_indices(s.features, s.features)
        return {
            "learner": self.solver.name,
            "table": [list(classes) for classes in self.task_map.tasks],
            "classes": list(s.classes),
            "counts": s.counts.clone(),
            "sums": s.sums.clone(),
            "moment": s.moment[rows, columns].clone(),  # symmetric: the upper triangle
            "memory": self.memory.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over a state.

        Raises:
            CheckpointError: it is of another method, or of other features.
        """
        if state.get("learner") != self.solver.name:
            raise CheckpointError(f"this state is of {state.get('learner')}, not of {self.solver.name}")
        size = self.statistics.features
        rows, columns = torch.triu_indices(size, size)
        if len(state["moment"]) != len(rows):
            raise CheckpointError("this state is of features of another length")
        moment = torch.zeros(size, size, dtype=torch.float64)
        moment[rows, columns] = state["moment"]
        moment[columns, rows] = state["moment"]
        self.task_map = TaskMap(tuple(tuple(classes) for classes in state["table"]))
        self.statistics = FeatureStatistics(tuple(state["classes"]), state["counts"], state["sums"], moment)
        self.memory.load_state_dict(state["memory"])
        self._solved = None


def _size(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]
