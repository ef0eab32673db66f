"""Settings of iTAML, and which engine they ask for; `itaml.learners.methods.itaml` says what they mean."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from itaml.learners.settings import Count, TrainingSettings
from itaml.meta.engines.batched import ELEMENTWISE


class ITAMLSettings(TrainingSettings):
    """Settings of iTAML."""

    update: Literal["paper", "released"] = "paper"
    engine: Literal["auto", "loop", "batched", "fused"] = "auto"
    inner_steps: Count = 1  # r
    beta: Annotated[float, Field(ge=0)] = 1.0
    horizon: Count | Literal["stream", "open"] = "stream"  # T; the stream's length, or not known

    @model_validator(mode="after")
    def _computable(self) -> Self:
        if self.engine == "fused" and (self.inner_steps != 1 or self.update != "paper"):
            raise ValueError("engine=fused computes update=paper with inner_steps=1 only; use engine=loop or auto")
        if self.engine == "batched" and (self.update != "paper" or self.optimizer.lower() not in ELEMENTWISE):
            raise ValueError(
                f"engine=batched is for update=paper and optimizer one of {', '.join(sorted(ELEMENTWISE))}"
            )
        if (self.distill or self.progressive_resize_from < 1) and not self.fused:
            raise ValueError(
                "distill and progressive_resize_from are for the fused engine: it needs update=paper and "
                "inner_steps=1; "
                "with another engine set distill=0 and progressive_resize_from=1"
            )
        if self.class_balancing == "logits" and not self.fused:
            raise ValueError(
                "class_balancing=logits is for the fused engine; set class_balancing=tasks for other engines"
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
