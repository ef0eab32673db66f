"""Generative replay, shared by DGR and RtF: pictures that the former self dreams, labelled by the former self.

The losses of new and of replayed pictures are weighted by how many tasks there are, r = 1/t for the new one (van de Ven
and Tolias, arXiv 1809.10635), and there are as many replayed pictures in a step as new ones.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.distill import DistillingLearner, Temperature, distillation
from itaml.learners.settings import Count, NoMemorySettings, Positive
from itaml.models.classifier import Classifier
from itaml.models.vae import VAE, Feedback
from itaml.storage import State

Generator = VAE | Feedback


class GenerativeSettings(NoMemorySettings):
    """Settings of learners with a generator."""

    generator_hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (400, 400)
    generator_lr: Positive | None = None  # rate of the generator; None is lr
    latent: Count = 100  # latent variables
    temperature: Temperature = 2.0  # of distilled labels


class GenerativeLearner(DistillingLearner):
    """A classifier, a generator, and frozen copies of both while a task is under way, from the second task on."""

    Settings: ClassVar[type[GenerativeSettings]] = GenerativeSettings
    settings: GenerativeSettings
    uses_memory: ClassVar[bool] = False
    former: Generator | None = None  # the generator before the task

    def __init__(
        self, model: Classifier, *, settings: GenerativeSettings, seeds: Seeds, compute: Compute | None = None
    ) -> None:
        super().__init__(model, settings=settings, seeds=seeds, compute=compute)
        with seeding.seeded(seeds.init, "generator"):
            self.generator = self.make_generator().to(self.device)

    def make_generator(self) -> Generator:
        """Return an untrained generator."""
        raise NotImplementedError

    def new_loss(self, batch: Batch) -> Tensor:
        """Return the loss of new pictures, of classifier and generator."""
        raise NotImplementedError

    def replay_loss(self, pictures: Tensor) -> Tensor:
        """Return the loss of replayed pictures, of classifier and generator."""
        raise NotImplementedError

    def begin_task(self, task: Task) -> None:
        """Keep the generator and the classifier as they are, and grow the head."""
        self.former = _frozen(self.generator) if len(self.table) else None
        super().begin_task(task)

    def end_task(self, task: Task) -> None:
        """Let the former self go."""
        self.former = None
        super().end_task(task)

    def loss(self, batch: Batch) -> Tensor:
        """Return r * new + (1 - r) * replayed, r = 1/t."""
        new = self.new_loss(batch)
        if self.former is None:
            return new
        ratio = 1 / len(self.table)
        return ratio * new + (1 - ratio) * self.replay_loss(self.former.sample(len(batch.targets)))

    def distilled(self, logits: Tensor, former: Tensor) -> Tensor:
        """Return the mean cross-entropy with the former self's softened probabilities, which are 0 for new classes.

        It is multiplied by T**2, without which a higher temperature would be a smaller gradient (Hinton, Vinyals and
        Dean, arXiv 1503.02531), and the labels of new pictures would drown those of replayed ones.
        """
        temperature = self.settings.temperature
        absent = F.pad(former, (0, logits.shape[1] - former.shape[1]), value=float("-inf"))
        return temperature**2 * distillation(logits, absent, temperature=temperature).mean()

    def trainable(self) -> list[Any]:
        """Return the weights of the classifier, and those of the generator with their own rate."""
        s = self.settings
        return [
            {"params": list(self.model.parameters())},
            {"params": list(self.generator.parameters()), "scale": (s.generator_lr or s.lr) / s.lr},
        ]

    def clip_gradients(self) -> None:
        """Limit the norms of both gradients, if the settings do."""
        super().clip_gradients()
        if self.settings.clip:
            nn.utils.clip_grad_norm_(self.generator.parameters(), self.settings.clip)

    def extra_state(self) -> State:
        """Return the generator and the former self."""
        former = None if self.former is None else self.former.state_dict()
        return {**super().extra_state(), "generator": _copied(self.generator.state_dict()), "former": former}

    def load_extra_state(self, state: State) -> None:
        """Take over what `extra_state` returned."""
        super().load_extra_state(state)
        self.generator.load_state_dict(state["generator"])
        self.former = None
        if state["former"] is not None:
            self.former = _frozen(self.generator)
            self.former.load_state_dict(state["former"])


def _frozen(generator: Generator) -> Generator:
    return copy.deepcopy(generator).requires_grad_(False)


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.clone(value) for name, value in state.items()}
