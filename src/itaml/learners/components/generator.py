"""Generative replay, shared by DGR and RtF: images drawn from the generator before the task, labelled by the teacher.

The losses of new and of replayed images are weighted by the number of tasks, r = 1/t for the new one (van de Ven and
Tolias, arXiv 1809.10635), and there are as many replayed images in a step as new ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Annotated, Any

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from itaml import distributed, seeding
from itaml.learners.components.teacher import distillation
from itaml.learners.context import Context
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Count, NoMemorySettings, Positive, Temperature
from itaml.models.vae import VAE, Feedback
from itaml.shares import Share
from itaml.storage import State

Generator = VAE | Feedback


class GenerativeSettings(NoMemorySettings):
    """Settings of learners with a generator."""

    generator_hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (400, 400)
    generator_lr: Positive | None = None  # rate of the generator; None is lr
    latent: Count = 100  # latent variables
    temperature: Temperature = 2.0  # of distilled labels


class Replayer:
    """A generator and a frozen copy of it while a task is under way, from the second task on.

    The copy and the teacher together are what the papers call the former scholar.
    """

    def __init__(self, context: Context, recipe: Recipe, make: Callable[[], Generator]) -> None:
        self.context, self.recipe = context, recipe
        with seeding.seeded(context.seeds.init, "generator"):
            self.generator = make().to(context.device)
        self.former: Generator | None = None  # the generator before the task

    def begin_task(self) -> None:
        """Keep the generator as it is, from the second task on."""
        self.former = _frozen(self.generator) if self.recipe.teacher else None

    def end_task(self) -> None:
        """Drop the copy."""
        self.former = None

    def mixed_loss(self, new: Tensor, count: int, replay_loss: Callable[[Tensor, Share | None], Tensor]) -> Tensor:
        """Return r * new + (1 - r) * replayed, r = 1/t.

        Args:
            new: loss of the new images.
            count: how many images to replay.
            replay_loss: loss of replayed images, of which a process may have a share.
        """
        if self.former is None:
            return new
        ratio = 1 / len(self.context.task_map)
        share = distributed.share_of(count)
        return ratio * new + (1 - ratio) * replay_loss(self.former.sample(count, share), share)

    def state_dict(self) -> State:
        """Return the generator and its copy."""
        former = None if self.former is None else self.former.state_dict()
        return {"generator": self.generator.state_dict(), "former": former}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned."""
        self.generator.load_state_dict(state["generator"])
        self.former = None
        if state["former"] is not None:
            self.former = _frozen(self.generator)
            self.former.load_state_dict(state["former"])

    def param_groups(self, settings: GenerativeSettings) -> list[dict[str, Any]]:
        """Return the weights of the classifier, and those of the generator with their own rate."""
        rate = settings.generator_lr or settings.lr
        return [
            {"params": list(self.context.model.parameters())},
            {"params": list(self.generator.parameters()), "scale": rate / settings.lr},
        ]


def distilled(logits: Tensor, former: Tensor, *, temperature: float) -> Tensor:
    """Return the mean cross-entropy with the former classifier's softened probabilities, which are 0 for new classes.

    It is multiplied by T**2, without which a higher temperature would be a smaller gradient (Hinton, Vinyals and Dean,
    arXiv 1503.02531), and the labels of new images would dominate those of replayed ones.
    """
    absent = F.pad(former, (0, logits.shape[1] - former.shape[1]), value=float("-inf"))
    return temperature**2 * distillation(logits, absent, temperature=temperature).mean()


def _frozen(generator: Generator) -> Generator:
    return copy.deepcopy(generator).requires_grad_(False)
