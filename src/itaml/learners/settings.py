"""The settings that all learners trained by SGD share; a method adds its own in a subclass."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from itaml.config import Settings
from itaml.inference.adapt import Scope
from itaml.inference.task import TaskScore
from itaml.meta.loss import Loss, Negatives

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0)]


class SgdSettings(Settings):
    """Settings of the training loop and of two-stage inference."""

    backbone: str = "mlp"
    memory: Annotated[int, Field(ge=0)] = 2000  # exemplars in all
    selection: Literal["random", "herding", "first"] = "random"

    epochs: Count = 10
    first_epochs: Annotated[int, Field(ge=0)] = 0  # of the first task; 0 is as many as of the others
    batch_size: Count = 64
    sampling: Literal["union", "balanced"] = "union"  # random mini-batches, or all tasks in turn
    augment: str = "none"
    optimizer: str = "sgd"
    lr: Positive = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Share = 0.0
    schedule: Literal["constant", "step", "cosine"] = "constant"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of a task's steps in which the rate rises to lr
    milestones: tuple[Count, ...] = ()  # epochs after which `step` multiplies lr by lr_decay
    lr_decay: Positive = 0.2
    clip: Share = 0.0  # largest norm of a gradient; 0 is no limit

    loss: Loss = "ce"
    negatives: Negatives = "seen"

    mirror: bool = False  # at inference, average the scores of each picture and of its mirror image
    task_score: TaskScore = "max-logit"
    adapt_steps: Annotated[int, Field(ge=0)] = 0  # b; 0 is off
    adapt_optimizer: str = "sgd"
    adapt_lr: Positive = 0.01
    adapt_batch: Count = 64  # Q
    adapt_scope: Scope = "head"
    adapt_guard: bool = True

    @property
    def room(self) -> int:
        """Pictures in the smallest part of the memory, which must hold one of every class."""
        return self.memory

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.memory == 0 and self.adapt_steps:
            raise ValueError("adapting at inference needs exemplars: set memory, or adapt_steps=0")
        if self.memory == 0 and self.task_score == "calibrated":
            raise ValueError("calibrated task scores need exemplars: set memory, or another task_score")
        return self


class NoMemorySettings(SgdSettings):
    """Settings of a method that keeps no exemplars: `memory` is not used, and neither is what needs exemplars."""

    memory: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _without_exemplars(self) -> Self:
        if self.adapt_steps or self.task_score == "calibrated":
            raise ValueError("this method keeps no exemplars, which adapt_steps and task_score=calibrated need")
        return self


class MemorySettings(SgdSettings):
    """Settings of a method that cannot do without exemplars."""

    @model_validator(mode="after")
    def _with_exemplars(self) -> Self:
        if self.memory == 0:
            raise ValueError("this method rehearses exemplars: memory must be at least one picture a class, not 0")
        return self
