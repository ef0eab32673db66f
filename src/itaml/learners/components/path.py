"""A training step that is tracked, for methods whose importance comes from the path of training (SI, RWalk)."""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from itaml import params
from itaml.learners.batch import Batch
from itaml.learners.components.importance import Anchors, gradients
from itaml.learners.method import Method
from itaml.params import Weights


def tracked_step(
    method: Method, anchors: Anchors, batch: Batch, optimizer: Optimizer, *, strength: float
) -> tuple[Tensor, Weights, Weights]:
    """Take a step on L + strength * penalty.

    Returns:
        L, its gradient without the penalty, and how the weights moved.
    """
    before = params.snapshot(method.model)
    gradient: Weights = {}

    def compute_gradients() -> Tensor:
        loss = method.backward(method.total_loss(batch))
        gradient.update(gradients(method.model))
        if len(anchors):
            (strength * anchors.penalty()).backward()
        return loss

    loss = method.gradient_step(optimizer, compute_gradients)
    return loss, gradient, params.subtract(params.snapshot(method.model), before)
