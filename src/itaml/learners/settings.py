"""The settings that all methods trained by gradient steps share; a method adds its own in a subclass."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from itaml.inference.inference_settings import InferenceSettings

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0)]
Part = Annotated[float, Field(gt=0, le=1)]
Temperature = Annotated[float, Field(gt=0)]


class RecipeSettings(InferenceSettings):
    """Ingredients of training that any method may use (see `learners.recipe`)."""

    augment: str = "none"
    strong_augment: str = "none"  # follows `augment`, for a share of the images
    strong_share: Annotated[float, Field(ge=0, le=1)] = 0.5  # share of the new images that it changes
    strong_exemplar_share: Annotated[float, Field(ge=0, le=1)] = 1.0  # share of the exemplars that it changes
    strong_until: Part = 1.0  # share of a task's epochs after which it and CutMix are left out
    rehearsal_cutmix: Annotated[float, Field(ge=0, le=1)] = 0.0  # probability of an exemplar's patch in a new image
    # logits: shift logits by the log of their class's count of images
    class_balancing: Literal["tasks", "logits"] = "tasks"
    balance_strength: Share = 1.0  # factor of that shift
    distill: Share = 0.0  # weight of the distillation from the model before the task; 0 is off
    distill_growth: Share = 0.0  # that weight is multiplied by (old classes / new classes) ** distill_growth
    temperature: Temperature = 2.0  # of the distillation
    cache_teacher_logits: bool = False  # compute the teacher's logits once per image, not for each augmented one
    progressive_resize_from: Part = 1.0  # side of a task's first training images, as a share of the full side; 1 is off
    progressive_resize_until: Part = 0.75  # share of a task's epochs after which images have their full size
    progressive_resize_in: Literal["all", "first"] = "all"  # tasks whose images are resized
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0  # decay of an exponential moving average of the weights; 0 is off

    @property
    def plain_loss(self) -> bool:
        """Whether nothing is added to the method's own loss and images."""
        added = self.distill or self.rehearsal_cutmix
        return self.class_balancing == "tasks" and not added and self.progressive_resize_from == 1

    @model_validator(mode="after")
    def _balanced(self) -> Self:
        if self.class_balancing == "logits" and not (self.loss == "ce" and self.negatives == "seen"):
            raise ValueError(
                "class_balancing=logits needs loss=ce and negatives=seen; set class_balancing=tasks for other losses"
            )
        if self.rehearsal_cutmix and self.class_balancing != "logits":
            raise ValueError("rehearsal_cutmix mixes labels in one softmax: set class_balancing=logits")
        if self.balance_strength != 1 and self.class_balancing != "logits":
            raise ValueError("balance_strength is for class_balancing=logits: set that too, or leave it at 1")
        if self.distill_growth and not self.distill:
            raise ValueError("distill_growth multiplies distill: set distill too, or leave it at 0")
        return self


class TrainingSettings(RecipeSettings):
    """Settings of the training loop, the recipe and two-stage inference."""

    backbone: str = "mlp"
    tune: Literal["none", "last", "all"] = "none"  # what of a pretrained backbone is trained; none: frozen features
    backbone_lr: Positive | None = None  # learning rate of a tuned backbone; None is lr
    adapter: Annotated[int, Field(ge=0)] = 0  # width of a trained layer on frozen features; 0 is none
    feature_flip: bool = True  # frozen features: average over each image and its horizontal flip
    feature_transform: Literal["none", "sqrt"] = "sqrt"  # of frozen features
    memory: Annotated[int, Field(ge=0)] = 2000  # exemplars in all
    memory_bytes: Annotated[int, Field(ge=0)] = 0  # instead of memory: bytes of exemplars in all, as WebP files
    selection: Literal["random", "herding", "first"] = "random"

    epochs: Count = 10
    first_epochs: Annotated[int, Field(ge=0)] = 0  # of the first task; 0 is as many as of the others
    batch_size: Count = 64
    sampling: Literal["union", "balanced"] = "union"  # random mini-batches, or all tasks in turn
    optimizer: str = "sgd"
    lr: Positive = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Share = 0.0
    schedule: Literal["constant", "step", "cosine"] = "constant"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of a task's steps in which the rate rises to lr
    milestones: tuple[Count, ...] = ()  # epochs after which `step` multiplies lr by lr_decay
    lr_decay: Positive = 0.2
    clip: Share = 0.0  # largest norm of a gradient; 0 is no limit

    @property
    def room(self) -> int:
        """Images in the smallest part of the memory, which must hold one of every class; 0 if counted in bytes."""
        return self.memory

    @property
    def keeps_exemplars(self) -> bool:
        """Whether there is a memory."""
        return self.memory > 0 or self.memory_bytes > 0

    @model_validator(mode="before")
    @classmethod
    def _one_budget(cls, values: Any) -> Any:
        """Let `memory_bytes` replace the default of `memory`."""
        if isinstance(values, dict) and values.get("memory_bytes") and "memory" not in values:
            return {**values, "memory": 0}
        return values

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.memory and self.memory_bytes:
            raise ValueError(
                "memory counts exemplars in images and memory_bytes in bytes: set one of them to 0 "
                f"(got memory={self.memory} and memory_bytes={self.memory_bytes})"
            )
        if not self.keeps_exemplars and self.adapt_steps:
            raise ValueError("adapting at inference needs exemplars: set memory, or adapt_steps=0")
        if not self.keeps_exemplars and self.task_score == "calibrated":
            raise ValueError("calibrated task scores need exemplars: set memory, or another task_score")
        if not self.keeps_exemplars and self.task_distance != "none":
            raise ValueError("distances to exemplars need exemplars: set memory, or task_distance=none")
        if self.backbone_lr is not None and self.tune == "none":
            raise ValueError("backbone_lr is for a pretrained backbone that is tuned: set tune=last or tune=all")
        if self.adapter and self.tune != "none":
            raise ValueError("adapter is a layer on frozen features: set tune=none")
        return self


class NoMemorySettings(TrainingSettings):
    """Settings of a method that keeps no exemplars: `memory` is not used, and neither is what needs exemplars."""

    memory: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _without_exemplars(self) -> Self:
        if self.memory_bytes:
            raise ValueError(f"this method keeps no exemplars: memory_bytes must be 0 (got {self.memory_bytes})")
        if self.adapt_steps or self.task_score == "calibrated":
            raise ValueError("this method keeps no exemplars, which adapt_steps and task_score=calibrated need")
        return self


class MemorySettings(TrainingSettings):
    """Settings of a method that cannot work without exemplars."""

    @model_validator(mode="after")
    def _with_exemplars(self) -> Self:
        if not self.keeps_exemplars:
            raise ValueError("this method rehearses exemplars: memory must be at least one image per class (got 0)")
        return self
