"""`GradientLearner`: a learner made of a method, a trainer and a predictor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.images import ClassId, ImageSet, join
from itaml.data.stream import Task
from itaml.errors import CheckpointError, DataError, SettingsError
from itaml.events import Callback, ignore
from itaml.inference import between_tasks
from itaml.inference.predictor import Predictor
from itaml.learners.api import Prediction
from itaml.learners.batch import Progress
from itaml.learners.context import Context
from itaml.learners.head_editing import forget_class, merge_classes, remove_images, renumber_classes
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import TrainingSettings
from itaml.learners.trainer import Trainer
from itaml.memory.buffer import Memory
from itaml.migration import migrate_learner_state
from itaml.models.classifier import Classifier
from itaml.models.classifier_state import classifier_state, restore_classifier
from itaml.models.sharded_layers import in_shares
from itaml.models.task_map import TaskMap
from itaml.storage import State


class GradientLearner:
    """A learner whose network is trained by gradient steps, with two-stage inference.

    Args:
        method: the class of the method.
        model: the network; it is moved to the device and trained in place.
        settings: of the class `method.Settings`.
        seeds: a seed for each thing that is drawn.
        compute: device, precision, and whether to compile.
    """

    def __init__(
        self,
        method: type[Method],
        model: Classifier,
        *,
        settings: TrainingSettings,
        seeds: Seeds,
        compute: Compute | None = None,
    ) -> None:
        self.context = Context(model, settings=settings, seeds=seeds, compute=compute, traits=method.traits)
        self.recipe = Recipe(self.context, method.traits)
        self.predictor = Predictor(self.context.model, self.context.memory, settings=settings, seeds=seeds)
        self.method = method(self.context, self.recipe, self.predictor)
        self.predictor.class_scores = self.method.class_scores
        self.trainer = Trainer(self.context, self.method, self.recipe)
        self.callback: Callback = ignore

    @property
    def model(self) -> Classifier:
        """The network."""
        return self.context.model

    @property
    def memory(self) -> Memory:
        """The exemplars."""
        return self.context.memory

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the method."""
        return self.context.settings

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""
        return self.model.task_map

    def configure(self, settings: TrainingSettings) -> None:
        """Use other settings from the next task on."""
        for part in (self.context, self.method, self.predictor):
            part.settings = settings

    def learn(self, task: Task) -> None:
        """Learn a task, or continue it where a restored learner was.

        Raises:
            DataError: the task does not fit the model or what was learned before.
            TrainingError: the loss is not a number any more.
        """
        self.check_task(task)
        self.clear_caches()
        if self.context.progress is None:
            between_tasks.before_task(self.predictor, self.with_exemplars(task.train))
            self.begin_task(task)
        data = self.method.training_data(task)
        self.trainer.fit(task, self.with_exemplars(data), self.callback, new_images=len(data))
        between_tasks.after_task(self.predictor, task, self.with_exemplars(task.train))
        if self.memory.budget:
            generator = seeding.generator(self.context.seeds.memory, "memory", task.index)
            features = partial(in_shares, self.predictor.features)
            self.memory.add(data, self.task_map.classes, generator=generator, features=features)
        self.method.end_task(task)
        self.trainer.finish()
        self.clear_caches()

    def begin_task(self, task: Task) -> None:
        """Prepare for a new task, once: the teacher, the normalisation, the new rows of the head, the method."""
        self.recipe.begin_task()
        if not len(self.task_map):
            self.model.fit_normalization(task.train)
        if task.classes:
            generator = seeding.generator(self.context.seeds.init, "head", len(self.task_map))
            self.model.head.grow(task.classes, generator=generator)
        self.method.begin_task(task)
        self.context.progress = Progress(task.index, 0)

    def with_exemplars(self, data: ImageSet) -> ImageSet:
        """Return what a task is trained on: D(t), in the form in which exemplars are kept, united with M(t-1)."""
        exemplars = self.memory.exemplars() if self.method.traits.rehearses else None
        data = self.memory.as_stored(data)
        return data if exemplars is None else join([data, exemplars])

    def check_task(self, task: Task) -> None:
        """Refuse a task that cannot be learned, before anything is changed."""
        if not len(task.train):
            raise DataError(f"task {task.index} has no training images")
        if task.train.shape != self.model.shape:
            self.model.check(torch.empty(0, *task.train.shape))
        progress = self.context.progress
        if progress is not None:
            if progress.task != task.index:
                raise DataError(f"task {progress.task} is under way and must be finished before task {task.index}")
            return
        self.check_classes(task.index, task.classes)
        task_map = self.task_map.grown(task.classes) if task.classes else self.task_map
        task_map.column_of(task.train.labels)  # every label must belong to a class that is or becomes known
        self.memory.check_room(len(task_map.classes), task.train)
        if self.method.traits.uses_memory and 0 < self.settings.room < len(task_map.classes):
            raise SettingsError(
                f"a part of the memory has {self.settings.room} images for {len(task_map.classes)} classes"
            )

    def check_classes(self, index: int, classes: tuple[ClassId, ...]) -> None:
        """Refuse a task of these classes if the settings make it impossible; a run asks before any training.

        Raises:
            SettingsError: a task of one class has no negatives.
        """
        if self.settings.negatives == "own" and len(classes) == 1:
            raise SettingsError(
                f"task {index} has a single class, and with negatives=own a head of one class has no negatives; "
                "use negatives=seen or larger tasks"
            )

    def predict(self, images: Tensor, continua: Tensor | None = None) -> Prediction:
        """Predict samples (n, c, h, w); see `Learner.predict`.

        Raises:
            DataError: nothing was learned yet, there are no samples, or they are of another shape than the model's.
        """
        if not len(self.task_map):
            raise DataError("nothing has been learned yet")
        if not len(images):
            raise DataError("there are no samples to predict")
        if continua is None:
            continua = torch.zeros(len(images), dtype=torch.int64)
        found = self.predictor.predict(self.class_scores(images), continua, lambda rows: images[rows])
        classes, tasks, probabilities = found
        return Prediction(classes, tasks, probabilities, self.task_map.classes)

    # What evaluation in one pass uses (see `Scoring`).

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the score of each class seen (n, columns), on the CPU."""
        return self.predictor.class_scores(images)

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's score for each task (n, tasks)."""
        return self.predictor.task_scores(class_scores)

    def task_distances(self, images: Tensor) -> Tensor | None:
        """Return what is added to the task scores (n, tasks) for distances to exemplars (see `DistanceScoring`)."""
        return self.predictor.task_distances(images)

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of a task's own columns (n, size), by the model adapted to it."""
        return self.predictor.adapted_scores(images, class_scores, task)

    # What corrections use (see `Editable`).

    def forget_class(self, class_id: ClassId) -> None:
        """Remove a class: its row of the head and its exemplars."""
        forget_class(self, class_id)

    def merge_classes(self, source: ClassId, target: ClassId) -> None:
        """Make two classes one, and train on the exemplars of both."""
        merge_classes(self, source, target)

    def remove_images(self, images: Tensor, labels: Tensor) -> None:
        """Drop images from the exemplars; what the weights have learned from them stays until the next training."""
        remove_images(self, images, labels)

    def renumber_classes(self, ids: Mapping[ClassId, ClassId]) -> None:
        """Give every class another id."""
        renumber_classes(self, ids)

    def clear_caches(self) -> None:
        """Drop everything derived from weights that are about to change."""
        self.predictor.clear_caches()

    def state_dict(self) -> State:
        """Return everything needed to continue to the same bits, also in the middle of a task."""
        return {
            "learner": type(self.method).__name__,
            **classifier_state(self.model),
            "memory": self.memory.state_dict(),
            "progress": self.trainer.state_dict(),
            "extra": {**self.method.state_dict(), "teacher": self.recipe.teacher.state_dict()},
            **between_tasks.state_of(self.predictor),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state of the same method.

        Raises:
            CheckpointError: it is of another method, or of another network.
        """
        name = type(self.method).__name__
        if state.get("learner") != name:
            raise CheckpointError(f"this state is of a {state.get('learner')}, not of a {name}")
        state = migrate_learner_state(state)
        restore_classifier(self.model, state)
        self.memory.load_state_dict(state["memory"])
        self.trainer.load_state_dict(state["progress"])
        self.recipe.teacher.load_state_dict(state["extra"].get("teacher"))
        self.method.load_state_dict(state["extra"])
        between_tasks.restore(self.predictor, state)
        self.model.eval()
        self.clear_caches()
