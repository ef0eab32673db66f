"""Settings of iTAML, and which engine they ask for; `itaml.learners.itaml` says what they mean."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from itaml.learners.distill import Temperature
from itaml.learners.settings import Count, SgdSettings, Share
from itaml.meta.batched import ELEMENTWISE

Part = Annotated[float, Field(gt=0, le=1)]


class ITAMLSettings(SgdSettings):
    """Settings of iTAML."""

    update: Literal["paper", "released"] = "paper"
    engine: Literal["auto", "loop", "batched", "fused"] = "auto"
    inner_steps: Count = 1  # r
    beta: Annotated[float, Field(ge=0)] = 1.0
    horizon: Count | Literal["stream", "open"] = "stream"  # T; the stream's length, or not known
    balance: Literal["tasks", "logits"] = "tasks"  # how exemplars, which are few, get their say (see the module)
    distill: Share = 0.0  # weight of the distillation from the model before the task; 0 is off
    temperature: Temperature = 2.0  # of the distillation
    distill_once: bool = False  # ask the model before the task once about every picture, not about each augmented one
    grow_from: Part = 1.0  # side of a task's first training images, as a share of the whole; 1 is off
    grow_until: Part = 0.75  # share of a task's epochs after which images are whole
    grow_in: Literal["all", "first"] = "all"  # tasks whose images grow

    @model_validator(mode="after")
    def _computable(self) -> Self:
        if self.engine == "fused" and (self.inner_steps != 1 or self.update != "paper"):
            raise ValueError("engine=fused computes update=paper with inner_steps=1 only; use engine=loop or auto")
        if self.engine == "batched" and (self.update != "paper" or self.optimizer.lower() not in ELEMENTWISE):
            raise ValueError(
                f"engine=batched is for update=paper and optimizer one of {', '.join(sorted(ELEMENTWISE))}"
            )
        if (self.distill or self.grow_from < 1) and not self.fused:
            raise ValueError(
                "distill and grow_from are for the fused engine: it needs update=paper and inner_steps=1; "
                "with another engine set distill=0 and grow_from=1"
            )
        if self.balance == "logits" and not (self.fused and self.loss == "ce" and self.negatives == "seen"):
            raise ValueError(
                "balance=logits is for the fused engine with loss=ce and negatives=seen; set balance=tasks for others"
            )
        return self

    @property
    def fused(self) -> bool:
        """Whether one forward and backward pass serves all tasks."""
        return self.engine == "fused" or (self.engine == "auto" and self.update == "paper" and self.inner_steps == 1)

    @property
    def batched(self) -> bool:
        """Whether the inner loops run together where the network allows it."""
        possible = self.update == "paper" and self.optimizer.lower() in ELEMENTWISE
        return possible and not self.fused and self.engine in ("auto", "batched")
