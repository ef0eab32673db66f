"""The settings of two-stage inference."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from itaml.config import Settings
from itaml.inference.adaptation import Scope
from itaml.inference.task_distance import TaskDistance
from itaml.inference.task_prediction import TaskScore
from itaml.losses import Loss, Negatives

OWN_HEAD = ("adapt_anchor", "adapt_views", "adapt_augment", "adapt_lda", "adapt_snapshot")


class InferenceSettings(Settings):
    """How tasks are predicted and how the model adapts to the predicted task."""

    loss: Loss = "ce"
    negatives: Negatives = "seen"

    flip_tta: bool = False  # average the scores of each image and of its horizontal flip
    shift_tta: Annotated[int, Field(ge=0, le=16)] = 0  # also of the image shifted by this many pixels to four corners
    align_head: Annotated[float, Field(ge=0, le=1)] = 0.0  # weight of a head fitted to Gaussians of classes; 0 is off
    task_score: TaskScore = "max-logit"
    task_temperature: Annotated[float, Field(ge=0)] = 1.0  # T of task_score=energy; 0 is max-logit
    task_epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.0  # e of the robust sum of log-probabilities; 0 is off
    task_distance: TaskDistance = "none"  # a term of the task scores from distances to exemplars in feature space
    task_distance_weight: Annotated[float, Field(gt=0)] = 1.0
    adapt_steps: Annotated[int, Field(ge=0, le=1000)] = 0  # b; 0 is off
    adapt_optimizer: str = "sgd"
    adapt_lr: Annotated[float, Field(gt=0)] = 0.01
    adapt_batch: Annotated[int, Field(ge=1)] = 64  # Q
    adapt_scope: Scope = "head"
    adapt_guard: bool = True
    # of adapt_scope=own-head (see `own_head`), where adapt_steps are iterations of L-BFGS
    adapt_anchor: Annotated[float, Field(ge=0)] = 0.01  # weight of the squared distance from the generic head
    adapt_views: Annotated[int, Field(ge=1, le=64)] = 1  # of each exemplar: itself, the others augmented
    adapt_augment: str = "none"  # how the other views are augmented
    adapt_lda: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of LDA in the pooled log-probabilities
    adapt_snapshot: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of the snapshot head
    snapshot_heads: bool = False  # in training: fit an own-task head on all images of a task, and carry it along

    @model_validator(mode="after")
    def _own_head(self) -> Self:
        for name in OWN_HEAD:
            if self.adapt_scope != "own-head" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is of adapt_scope=own-head (got adapt_scope={self.adapt_scope})")
        if self.adapt_views > 1 and self.adapt_augment == "none":
            raise ValueError(f"adapt_views={self.adapt_views} needs adapt_augment, or all views are the same")
        if self.adapt_lda + self.adapt_snapshot > 1:
            raise ValueError("adapt_lda and adapt_snapshot are shares of one whole: their sum must be at most 1")
        if self.align_head and self.adapt_steps:
            raise ValueError(
                f"align_head={self.align_head:g} replaces the head that adaptation starts from: set adapt_steps=0"
            )
        if self.adapt_snapshot and not self.snapshot_heads:
            raise ValueError("adapt_snapshot needs snapshot_heads=true, in training too")
        return self

    @model_validator(mode="after")
    def _task_scores(self) -> Self:
        if self.task_temperature != 1 and self.task_score != "energy":
            raise ValueError(
                f"task_temperature={self.task_temperature:g} is of task_score=energy (got task_score={self.task_score})"
            )
        if self.task_epsilon and (self.task_score == "max-logit" or self.task_temperature == 0):
            raise ValueError(
                "task_epsilon needs probabilities of tasks: set task_score=log-posterior, energy with "
                "task_temperature above 0, or calibrated"
            )
        if self.task_distance_weight != 1 and self.task_distance == "none":
            raise ValueError("task_distance_weight needs task_distance=mahalanobis or task_distance=nearest")
        return self
