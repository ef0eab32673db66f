"""The settings of two-stage inference."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from itaml.config import Settings
from itaml.inference.adaptation import Scope
from itaml.inference.task_prediction import TaskScore
from itaml.losses import Loss, Negatives


class InferenceSettings(Settings):
    """How tasks are predicted and how the model adapts to the predicted task."""

    loss: Loss = "ce"
    negatives: Negatives = "seen"

    flip_tta: bool = False  # average the scores of each image and of its horizontal flip
    task_score: TaskScore = "max-logit"
    adapt_steps: Annotated[int, Field(ge=0, le=1000)] = 0  # b; 0 is off
    adapt_optimizer: str = "sgd"
    adapt_lr: Annotated[float, Field(gt=0)] = 0.01
    adapt_batch: Annotated[int, Field(ge=1)] = 64  # Q
    adapt_scope: Scope = "head"
    adapt_guard: bool = True
