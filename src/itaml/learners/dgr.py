"""DGR: deep generative replay (Shin, Lee, Kim and Kim, NeurIPS 2017).

| symbol      | here                                                                                     |
|-------------|------------------------------------------------------------------------------------------|
| S, theta    | the solver: the classifier                                                               |
| G           | the generator: `generator`                                                               |
| former self | `teacher` and `former`: both as they were before the task, together the former *scholar* |
| x'          | pictures drawn from the former generator                                                 |
| r           | 1/t, the importance of the new task                                                      |

    L_train(theta_t) = r E[L(S(x; theta_t), y)] + (1 - r) E[L(S(x'; theta_t), S(x'; theta_t-1))]            (eq. 1)

The generator is trained on new and replayed pictures with the same weights.

Differences from the paper: the generator is a variational autoencoder, as in van de Ven and Tolias (arXiv 1809.10635),
and not a Wasserstein GAN; r = 1/t is theirs too. Solver and generator take their steps together: their weights are
apart, so that neither's loss moves the other. `labels="soft"` distils the former solver's probabilities, which they
call DGR+distill.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from itaml.learners.batch import Batch
from itaml.learners.generative import GenerativeLearner, GenerativeSettings
from itaml.models.vae import VAE


class DGRSettings(GenerativeSettings):
    """Settings of DGR."""

    labels: Literal["hard", "soft"] = "hard"  # of replayed pictures


class DGR(GenerativeLearner):
    """A solver and a generator, each trained on what its former self replays."""

    Settings: ClassVar[type[DGRSettings]] = DGRSettings
    settings: DGRSettings
    generator: VAE

    def make_generator(self) -> VAE:
        """Return an untrained autoencoder."""
        s = self.settings
        return VAE(self.model.shape, hidden=s.generator_hidden, latent=s.latent)

    def new_loss(self, batch: Batch) -> Tensor:
        """Return the first expectation of eq. 1, and the generator's loss."""
        solver = self.sample_losses(self.forward(batch.images), batch)
        return solver.mean() + self.generator.losses(batch.images).mean()

    def replay_loss(self, pictures: Tensor) -> Tensor:
        """Return the second expectation of eq. 1, and the generator's loss."""
        logits, former = self.forward(pictures), self.taught(pictures)
        generator = self.generator.losses(pictures).mean()
        if self.settings.labels == "hard":
            return F.cross_entropy(logits, former.argmax(1)) + generator
        return self.distilled(logits, former) + generator
