"""DGR: deep generative replay (Shin, Lee, Kim and Kim, NeurIPS 2017).

| symbol      | here                                                                                     |
|-------------|------------------------------------------------------------------------------------------|
| S, theta    | the solver: the classifier                                                               |
| G           | the generator: `replayer.generator`                                                      |
| former scholar | the teacher and `replayer.former`: both networks as they were before the task         |
| x'          | images drawn from the former generator                                                   |
| r           | 1/t, the importance of the new task                                                      |

    L_train(theta_t) = r E[L(S(x; theta_t), y)] + (1 - r) E[L(S(x'; theta_t), S(x'; theta_t-1))]            (eq. 1)

The generator is trained on new and replayed images with the same weights.

Differences from the paper: the generator is a variational autoencoder, as in van de Ven and Tolias (arXiv 1809.10635),
and not a Wasserstein GAN; r = 1/t is theirs too. Solver and generator take their steps together: their weights are
apart, so that neither's loss moves the other. `labels="soft"` distils the former solver's probabilities, which they
call DGR+distill.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.generator import GenerativeSettings, Replayer, distilled
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.models.sharded_layers import in_shares
from itaml.models.vae import VAE
from itaml.shares import Share


class DGRSettings(GenerativeSettings):
    """Settings of DGR."""

    labels: Literal["hard", "soft"] = "hard"  # of replayed images


class DGR(Method):
    """A solver and a generator, each trained on what the former scholar replays."""

    Settings: ClassVar[type[DGRSettings]] = DGRSettings
    settings: DGRSettings
    traits: ClassVar[Traits] = Traits(memory="none", needs_teacher=True)
    saved: ClassVar[tuple[str, ...]] = ("replayer",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.replayer = Replayer(context, recipe, self._make_generator)

    def _make_generator(self) -> VAE:
        s = self.settings
        return VAE(self.model.shape, hidden=s.generator_hidden, latent=s.latent)

    def begin_task(self, task: Task) -> None:
        """Keep the generator as it is."""
        self.replayer.begin_task()

    def end_task(self, task: Task) -> None:
        """Drop the former generator."""
        self.replayer.end_task()

    def param_groups(self) -> list[Any]:
        """Return the weights of the solver and of the generator."""
        return self.replayer.param_groups(self.settings)

    def networks(self) -> list[nn.Module]:
        """Return the solver and the generator."""
        return [self.model, self.replayer.generator]

    def loss(self, batch: Batch) -> Tensor:
        """Return eq. 1 for the solver, and the same mixture of the generator's losses."""
        new = super().loss(batch) + self._generator_loss(batch.images, batch.share)
        return self.replayer.mixed_loss(new, len(batch.targets), self._replay_loss)

    def _replay_loss(self, images: Tensor, share: Share | None = None) -> Tensor:
        """Return the second expectation of eq. 1, and the generator's loss."""
        logits, former = self.context.forward(images, share), self.recipe.teacher.logits(images, share)
        generator = self._generator_loss(images, share)
        if self.settings.labels == "hard":
            return F.cross_entropy(logits, former.argmax(1)) + generator
        return distilled(logits, former, temperature=self.settings.temperature) + generator

    def _generator_loss(self, images: Tensor, share: Share | None) -> Tensor:
        assert isinstance(self.replayer.generator, VAE)
        return in_shares(self.replayer.generator.losses, images, share).mean()
