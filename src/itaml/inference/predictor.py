"""Two-stage inference for any classifier: predict the task of a continuum, adapt to it, predict the classes.

All learners share it, so that methods without a notion of tasks are evaluated by the same rule. With `max-logit` and
without adaptation, a continuum of one sample gets the plain arg-max over all classes seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.func import functional_call

from itaml import seeding
from itaml.config import Seeds
from itaml.inference.adaptation import adapt
from itaml.inference.aligned_head import align
from itaml.inference.class_gaussians import ClassGaussians
from itaml.inference.class_prediction import AdaptedScores, joint_probabilities, predict_classes, task_posterior
from itaml.inference.inference_settings import InferenceSettings
from itaml.inference.own_task import fit_own_task
from itaml.inference.snapshot_heads import SnapshotHeads
from itaml.inference.task_calibration import TaskCalibration, fit_task_calibration
from itaml.inference.task_distance import Scores, fit_task_distance
from itaml.inference.task_prediction import (
    energies,
    log_posteriors,
    max_responses,
    predict_tasks,
    robust_log_probabilities,
)
from itaml.inference.views import mean_over_views
from itaml.memory.buffer import Memory
from itaml.models.classifier import Classifier
from itaml.models.task_map import TaskMap
from itaml.optimizers import make_optimizer
from itaml.params import Weights

BATCH = 500  # images per forward pass
Value = TypeVar("Value")


def two_stages(
    scores: Tensor,
    continua: Tensor,
    task_map: TaskMap,
    *,
    task_scores: Tensor,
    task_evidence: Tensor,
    adapted: AdaptedScores,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each sample's class id (n,), task (n,) and probability of each class (n, columns).

    Args:
        scores: class scores (n, columns).
        continua: number of each sample's continuum (n,), from 0 without gaps.
        task_map: which class is in which task and column.
        task_scores: each sample's score for each task (n, tasks).
        task_evidence: each sample's log-evidence for each task (n, tasks).
        adapted: scores of a task's own columns for some samples, by the model adapted to it.
    """
    tasks = predict_tasks(task_scores, continua)[continua]
    classes, inside = predict_classes(tasks, task_map, adapted)
    posterior = task_posterior(task_evidence, continua)[continua]
    return classes, tasks, joint_probabilities(scores, inside, tasks, posterior, task_map).float()


class Predictor:
    """Prediction from a trained classifier and its exemplars. Predicting never changes the classifier.

    Args:
        model: the classifier.
        memory: the exemplars that adaptation and calibration use.
        settings: see `InferenceSettings`.
        seeds: `seeds.adapt` draws the mini-batches of the adaptation.
        class_scores: replaces `model_scores` for methods that predict classes differently.
    """

    def __init__(
        self,
        model: Classifier,
        memory: Memory,
        *,
        settings: InferenceSettings,
        seeds: Seeds,
        class_scores: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.model, self.memory = model, memory
        self.settings, self.seeds = settings, seeds
        self.class_scores = class_scores or self.model_scores
        self.snapshots = SnapshotHeads(self.features)
        self.gaussians = ClassGaussians(self.features)
        self._cache: dict[str, Any] = {}

    @property
    def task_map(self) -> TaskMap:
        """Which class is in which task and column."""
        return self.model.task_map

    def clear_caches(self) -> None:
        """Drop everything derived from weights that are about to change."""
        self._cache = {}

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return a value that is computed once, until the weights change."""
        if name not in self._cache:
            self._cache[name] = compute()
        value: Value = self._cache[name]
        return value

    def predict(
        self, scores: Tensor, continua: Tensor, read: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return each sample's class id (n,), task (n,) and probability of each class (n, columns).

        Args:
            scores: class scores of the generic model (n, columns).
            continua: number of each sample's continuum (n,), from 0 without gaps.
            read: returns the pixels of some samples, for learners that adapt.
        """
        task_scores = self.task_scores(scores)
        if self.settings.task_distance != "none":
            distances = self.task_distances(read(torch.arange(len(scores))))
            assert distances is not None, "the settings name a distance"
            task_scores = task_scores + distances
        return two_stages(
            scores,
            continua,
            self.task_map,
            task_scores=task_scores,
            task_evidence=self.task_evidence(scores),
            adapted=lambda rows, task: self.adapted_scores(read(rows), scores[rows], task),
        )

    def model_scores(self, images: Tensor) -> Tensor:
        """Return the logits of the generic model (n, columns), on the CPU."""
        return self._outputs(images, self.aligned_weights())

    def aligned_weights(self) -> Weights:
        """Return the aligned head, which replaces the trained one with `align_head`; {} where there is none."""
        return self.cached("aligned head", lambda: align(self)) if self.settings.align_head else {}

    def features(self, images: Tensor) -> Tensor:
        """Return the features of the generic model (n, d), on the CPU."""
        self.model.eval()
        with torch.no_grad():
            return torch.cat([self.model.features(self._placed(part)).float().cpu() for part in images.split(BATCH)])

    def task_scores(self, class_scores: Tensor) -> Tensor:
        """Return each sample's score for each task (n, tasks), by the rule that the settings name."""
        s = self.settings
        if s.task_score == "max-logit":
            return max_responses(class_scores, self.task_map)
        if s.task_score == "energy":
            found = energies(class_scores, self.task_map, temperature=s.task_temperature)
            if not s.task_epsilon:
                return found
            return robust_log_probabilities((found / s.task_temperature).log_softmax(1), s.task_epsilon)
        return self.task_evidence(class_scores)

    def task_distances(self, images: Tensor) -> Tensor | None:
        """Return the weighted term of the task scores from distances to exemplars (n, tasks), None where it is off."""
        s = self.settings
        if s.task_distance == "none":
            return None
        return s.task_distance_weight * self.cached("task distance", self._fit_task_distance)(self.view_mean(images))

    def task_evidence(self, class_scores: Tensor) -> Tensor:
        """Return each sample's log-evidence for each task (n, tasks), which adds up over a continuum."""
        if self.settings.task_score == "calibrated":
            found = self.calibration()(max_responses(class_scores, self.task_map))
        else:
            found = log_posteriors(class_scores, self.task_map)
        return robust_log_probabilities(found, self.settings.task_epsilon)

    def adapted_scores(self, images: Tensor, class_scores: Tensor, task: int) -> Tensor:
        """Return the scores of a task's own columns (n, size), by the model adapted to it."""
        if self.settings.adapt_scope == "own-head":
            own = self.cached(f"own head {task}", lambda: fit_own_task(self, task))
            return class_scores[:, self.task_map.columns(task)] if own is None else own(self.view_mean(images))
        weights = self.adapted_weights(task)
        if not weights:
            return class_scores[:, self.task_map.columns(task)]
        return self._outputs(images, weights)[:, self.task_map.columns(task)]

    def adapted_weights(self, task: int) -> Weights:
        """Return the weights that adapting to a task changes, from the cache after the first call; {} for none."""
        return self.cached(f"adapted {task}", lambda: self._adapt(task))

    def _adapt(self, task: int) -> Weights:
        s = self.settings
        exemplars = self.memory.exemplars(self.task_map.tasks[task])
        if not s.adapt_steps or exemplars is None or self.task_map.sizes[task] < 2:
            return {}
        images, labels = exemplars.load()
        self.model.eval()
        return adapt(
            self.model,
            self._placed(images),
            self._placed(self.task_map.column_of(labels)),
            steps=s.adapt_steps,
            batch_size=s.adapt_batch,
            make_optimizer=lambda tensors: make_optimizer(s.adapt_optimizer, tensors, lr=s.adapt_lr),
            scope=s.adapt_scope,
            loss=s.loss,
            negatives=s.negatives,
            guard=s.adapt_guard,
            generator=seeding.generator(self.seeds.adapt, "adapt", task),
        )

    def calibration(self) -> TaskCalibration:
        """Return the calibration of task scores, fitted on the exemplars at the first call after learning."""
        return self.cached("calibration", self._calibrate)

    def _calibrate(self) -> TaskCalibration:
        exemplars = self.memory.exemplars()
        assert exemplars is not None, "the settings refuse calibration without a memory"
        images, labels = exemplars.load()
        scores = max_responses(self.class_scores(images), self.task_map)
        return fit_task_calibration(scores, self.task_map.task_of(labels))

    def _fit_task_distance(self) -> Scores:
        exemplars = self.memory.exemplars()
        assert exemplars is not None, "the settings refuse distances without a memory"
        images, labels = exemplars.load()
        columns = self.task_map.column_of(labels)
        return fit_task_distance(self.settings.task_distance, self.view_mean(images), columns, self.task_map)

    def view_mean(self, images: Tensor) -> Tensor:
        """Return the features of images (n, d), averaged over the views of test-time augmentation."""
        s = self.settings
        return mean_over_views(images, self.features, flip=s.flip_tta, shift=s.shift_tta)

    def _outputs(self, images: Tensor, weights: Weights) -> Tensor:
        self.model.eval()
        with torch.no_grad():
            parts = [self._scores(self._placed(part), weights) for part in images.split(BATCH)]
        return torch.cat([part.float().cpu() if part.dtype == torch.bfloat16 else part.cpu() for part in parts])

    def _scores(self, images: Tensor, weights: Weights) -> Tensor:
        """Return the scores (n, columns) of the model with some weights in place of its own."""
        s = self.settings
        return mean_over_views(
            images, lambda view: functional_call(self.model, weights, (view,)), flip=s.flip_tta, shift=s.shift_tta
        )

    def _placed(self, images: Tensor) -> Tensor:
        return images.to(self.model.head.weight.device)
