"""Two-stage inference for any learner with a classifier: find the task of a continuum, adapt to it, name the classes.

All learners share it, so that methods that know nothing of tasks are voted on by the same rule. With `max-logit` and
without adaptation, a continuum of one sample gets the plain arg-max over all classes seen.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call

from itaml import seeding
from itaml.config import Seeds
from itaml.errors import DataError
from itaml.inference.adapt import adapt
from itaml.inference.calibrate import Calibration, fit_calibration
from itaml.inference.predict import joint_probabilities, name_classes, task_posterior
from itaml.inference.task import log_posteriors, max_responses, predict_tasks
from itaml.learners.contract import Prediction
from itaml.learners.optim import make_optimizer
from itaml.learners.settings import SgdSettings
from itaml.memory.store import Memory
from itaml.models.classifier import Classifier
from itaml.models.table import TaskTable
from itaml.params import Weights

BATCH = 500  # images a forward pass at inference


class TwoStage:
    """Prediction from a trained classifier and its exemplars. Predicting never changes the classifier."""

    memory: Memory

    def __init__(self, model: Classifier, *, settings: SgdSettings, seeds: Seeds) -> None:
        self.model = model
        self.settings = settings
        self.seeds = seeds
        self._adapted: dict[int, Weights] = {}
        self._calibration: Calibration | None = None

    @property
    def table(self) -> TaskTable:
        """Which class is in which task and column."""
        return self.model.table

    def forget_adaptations(self) -> None:
        """Drop everything derived from weights that are about to change."""
        self._adapted = {}
        self._calibration = None

    def predict(self, continuum: Tensor) -> Prediction:
        """Predict samples (n, c, h, w) that share one unknown task.

        Raises:
            DataError: nothing was learned yet, there are no samples, or they are of another shape than the model's.
        """
        return self.predict_many(continuum, torch.zeros(len(continuum), dtype=torch.int64))[0]

    def predict_many(self, images: Tensor, continua: Tensor) -> list[Prediction]:
        """Predict samples of many continua at once; `continua` numbers each sample's, from 0 without gaps."""
        if not len(self.table):
            raise DataError("nothing has been learned yet")
        if not len(images):
            raise DataError("there are no samples to predict")
        classes, tasks, chances = self.decide(self.class_scores(images), continua, lambda rows: images[rows])
        members = [(continua == number).nonzero().flatten() for number in range(int(continua.max()) + 1)]
        return [Prediction(classes[rows], int(tasks[rows[0]]), chances[rows], self.table.classes) for rows in members]

    def decide(
        self, scores: Tensor, continua: Tensor, read: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return each sample's class id (n,), task (n,) and chance of each class (n, columns), from its class scores.

        Args:
            scores: the generic model's (n, columns).
            continua: number of each sample's continuum (n,), from 0 without gaps.
            read: returns the pixels of some samples, for learners that adapt.
        """
        tasks = predict_tasks(self.task_scores(scores), continua)[continua]
        classes, inside = name_classes(
            tasks, self.table, lambda rows, task: self.adapted_scores(read(rows), scores[rows], task)
        )
        posterior = task_posterior(self.task_evidence(scores), continua)[continua]
        return classes, tasks, joint_probabilities(scores, inside, tasks, posterior, self.table).float()

    def class_scores(self, images: Tensor) -> Tensor:
        """Return the generic model's score of each class seen (n, columns), on the CPU."""
        return self._outputs(images, {})

    def features(self, images: Tensor) -> Tensor:
        """Return the generic model's features (n, d), on the CPU."""
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.model.features(self._placed(part)).float().cpu() for part in images.split(BATCH)])

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's score for each task (n, tasks), by the rule that the settings name."""
        if self.settings.task_score == "max-logit":
            return max_responses(class_scores, self.table)
        return self.task_evidence(class_scores)

    def task_evidence(self, class_scores: Tensor) -> Tensor:
        """Return each sample's log-evidence for each task (n, tasks), which adds up over a continuum."""
        if self.settings.task_score == "calibrated":
            return self.calibration()(max_responses(class_scores, self.table))
        return log_posteriors(class_scores, self.table)

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of a task's own columns (n, size), by the model adapted to it."""
        weights = self.adapted_weights(task)
        if not weights:
            return class_scores[:, self.table.columns(task)]
        return self._outputs(images, weights)[:, self.table.columns(task)]

    def adapted_weights(self, task: int) -> Weights:
        """Return the weights that adapting to a task changes, from the cache after the first call; {} for none."""
        if task not in self._adapted:
            self._adapted[task] = self._adapt(task)
        return self._adapted[task]

    def _adapt(self, task: int) -> Weights:
        s = self.settings
        exemplars = self.memory.exemplars(self.table.tasks[task])
        if not s.adapt_steps or exemplars is None or self.table.sizes[task] < 2:
            return {}
        images, labels = exemplars.load()
        self.model.eval()
        return adapt(
            self.model,
            self._placed(images),
            self.table.column_of(labels).to(self._device()),
            steps=s.adapt_steps,
            batch_size=s.adapt_batch,
            make_optimizer=lambda tensors: make_optimizer(s.adapt_optimizer, tensors, lr=s.adapt_lr),
            scope=s.adapt_scope,
            loss=s.loss,
            negatives=s.negatives,
            guard=s.adapt_guard,
            generator=seeding.generator(self.seeds.adapt, "adapt", task),
        )

    def calibration(self) -> Calibration:
        """Return the calibration of task scores, fitted on the exemplars at the first call after learning."""
        if self._calibration is None:
            exemplars = self.memory.exemplars()
            assert exemplars is not None, "the settings refuse calibration without a memory"
            images, labels = exemplars.load()
            scores = max_responses(self.class_scores(images), self.table)
            self._calibration = fit_calibration(scores, self.table.task_of(labels))
        return self._calibration

    def _outputs(self, images: Tensor, weights: Weights) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            parts = [self._answer(self._placed(part), weights) for part in images.split(BATCH)]
        return torch.cat([part.float().cpu() if part.dtype == torch.bfloat16 else part.cpu() for part in parts])

    def _answer(self, images: Tensor, weights: Weights) -> Tensor:
        """Return the scores (n, columns) of the model with some weights in place of its own."""
        scores: Tensor = functional_call(self.model, weights, (images,))
        if not self.settings.mirror:
            return scores
        mirrored: Tensor = functional_call(self.model, weights, (images.flip(3),))
        return (scores + mirrored) / 2

    def _placed(self, images: Tensor) -> Tensor:
        return images.to(self._device())

    def _device(self) -> torch.device:
        return self.model.head.weight.device
