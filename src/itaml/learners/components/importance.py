"""Importance penalties, shared by EWC, online EWC, SI, MAS and RWalk: important weights may move less.

Each of these methods adds, to the loss of a new task, a multiple of

    sum over anchors a, sum over weights k of  Omega(a, k) * (theta(k) - theta*(a, k))**2

and they differ in how the importance Omega is found, and in how many anchors there are. The head grows: rows that came
after an anchor was set have no importance in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from itaml import distributed, params
from itaml.data.images import ImageSet
from itaml.data.ownership import read_together
from itaml.learners.settings import NoMemorySettings
from itaml.models.classifier import Classifier
from itaml.params import Weights

Strength = Annotated[float, Field(ge=0)]
CHUNK = 32  # samples whose gradients are held at once: 32 times the network's size


@dataclass(frozen=True, eq=False)
class Anchor:
    """Weights to stay near, and how important each is."""

    weights: Weights  # theta*
    importance: Weights  # Omega, of the same shapes

    def penalty(self, model: nn.Module) -> Tensor:
        """Return the sum over weights of Omega * (theta - theta*)**2, with gradients into the model."""
        total = torch.zeros((), device=next(model.parameters()).device)
        for name, value in model.named_parameters():
            old = self.weights[name]
            moved = (value if value.shape == old.shape else value[: len(old)]) - old
            total = total + (self.importance[name] * moved.square()).sum()
        return total


class ImportanceSettings(NoMemorySettings):
    """Settings of an importance penalty."""

    strength: Strength = 1.0  # lambda, or c


class Anchors:
    """The anchors of a method, which are saved with it."""

    def __init__(self, model: Classifier) -> None:
        self.model = model
        self.anchors: tuple[Anchor, ...] = ()

    def __len__(self) -> int:
        return len(self.anchors)

    def add(self, importance: Weights) -> None:
        """Set one more anchor at the present weights."""
        self.anchors = (*self.anchors, Anchor(params.snapshot(self.model), importance))

    def replace(self, importance: Weights) -> None:
        """Set the only anchor at the present weights."""
        self.anchors = (Anchor(params.snapshot(self.model), importance),)

    def accumulate(self, importance: Weights, *, decay: float = 1.0) -> None:
        """Add to `decay` times the importance of the only anchor, and move the anchor to the present weights."""
        if self.anchors:
            before = self.importance()
            importance = {name: decay * before[name] + value for name, value in importance.items()}
        self.replace(importance)

    def importance(self) -> Weights:
        """Return the importance of the only anchor, with zeros for rows of the head that came later."""
        return grown(self.anchors[0].importance, self.model) if self.anchors else zeros(self.model)

    def penalty(self) -> Tensor:
        """Return the penalties of all anchors together."""
        zero = torch.zeros((), device=next(self.model.parameters()).device)
        return sum((anchor.penalty(self.model) for anchor in self.anchors), zero)

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the anchors."""
        return [{"weights": a.weights, "importance": a.importance} for a in self.anchors]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Restore the anchors."""
        self.anchors = tuple(Anchor(self._placed(each["weights"]), self._placed(each["importance"])) for each in state)

    def _placed(self, weights: Mapping[str, Tensor]) -> Weights:
        device = next(self.model.parameters()).device
        return {name: value.to(device, copy=True) for name, value in weights.items()}


def zeros(model: nn.Module) -> Weights:
    """Return zeros of the shapes of a model's parameters."""
    return {name: torch.zeros_like(value) for name, value in params.snapshot(model).items()}


def grown(weights: Mapping[str, Tensor], model: nn.Module) -> Weights:
    """Return weights of a smaller head with rows of zeros for the rows that a model's head has more."""
    larger = zeros(model)
    for name, value in weights.items():
        if value.shape == larger[name].shape:
            larger[name] = value.clone()
        else:
            larger[name][: len(value)] = value
    return larger


def gradients(model: nn.Module) -> Weights:
    """Copy the gradients of a model; zeros where there is none."""
    named = model.named_parameters()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for name, p in named}


def mean_over_samples(
    model: Classifier,
    images: Tensor,
    targets: Tensor,
    *,
    output: Callable[[Tensor, Tensor], Tensor],
    size: Callable[[Tensor], Tensor],
) -> Weights:
    """Return the mean over samples of the size of each sample's own gradient; all processes must call this together.

    Args:
        model: in evaluation mode, so that samples do not mix in batch normalisation.
        images: pixels (n, c, h, w) on the model's device.
        targets: a number for each sample (n,), handed to `output`.
        output: maps logits (columns,) and a target to the scalar that is differentiated.
        size: elementwise, such as the square or the absolute value.
    """
    weights, buffers = params.snapshot(model), params.snapshot_buffers(model)

    def scalar(weights: Weights, image: Tensor, target: Tensor) -> Tensor:
        logits = functional_call(model, (weights, buffers), (image[None],))[0]
        return output(logits, target)

    each = vmap(grad(scalar), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(value) for name, value in weights.items()}
    chunks = list(zip(torch.split(images, CHUNK), torch.split(targets, CHUNK), strict=True))
    for some, numbers in (chunks[number] for number in distributed.own_block(len(chunks))):
        for name, value in each(weights, some, numbers).items():
            total[name] += size(value).sum(0)
    return {name: value / len(images) for name, value in distributed.total(total).items()}


def fisher(model: Classifier, images: Tensor, targets: Tensor, *, labels: str) -> Weights:
    """Return the diagonal of the Fisher information: the mean squared gradient of log p(y | x).

    Args:
        model: in evaluation mode.
        images: pixels (n, c, h, w).
        targets: right columns (n,), which only `empirical` looks at.
        labels: `exact`, the expectation over y ~ p(y | x), at the cost of a pass for each column; `sampled`, one y
            drawn from p(y | x) a sample with torch's global generator; `empirical`, the right y.
    """
    if labels == "empirical":
        return mean_over_samples(model, images, targets, output=_log_likelihood, size=torch.square)
    with torch.no_grad():
        probabilities = torch.cat([model(part) for part in torch.split(images, 500)]).float().softmax(1)  # (n, columns)
    if labels == "sampled":
        drawn = torch.multinomial(probabilities, 1).flatten()
        return mean_over_samples(model, images, drawn, output=_log_likelihood, size=torch.square)
    total = zeros(model)
    for column in range(probabilities.shape[1]):
        # The gradient of sqrt(p) * log p(y), with p held constant, has p times the square as its square.
        def output(logits: Tensor, probability: Tensor, column: int = column) -> Tensor:
            return probability.sqrt() * F.log_softmax(logits, dim=0)[column]

        part = mean_over_samples(model, images, probabilities[:, column], output=output, size=torch.square)
        total = {name: total[name] + part[name] for name in total}
    return total


def _log_likelihood(logits: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(logits, dim=0).gather(0, target[None])[0]


def some_images(images: ImageSet, *, limit: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return at most `limit` of the images and their labels, drawn without replacement; 0 is all."""
    order = torch.randperm(len(images), generator=generator)
    return read_together(images, order[:limit] if limit else order)
