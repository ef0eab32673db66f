"""RtF: replay through feedback (van de Ven and Tolias, Generative replay with feedback connections, arXiv 1809.10635).

| symbol           | here                                                                                       |
|------------------|--------------------------------------------------------------------------------------------|
| z                | `latent` variables, behind the classifier's last hidden layer, with a standard normal prior |
| L_classification | cross-entropy of new pictures                                                              |
| L_distillation   | cross-entropy with the former self's softened probabilities, of replayed pictures          |
| L_generative     | the autoencoder's loss, of both                                                            |
| T                | `temperature`                                                                              |

    L_current = L_generative + L_classification,    L_replay = L_generative + L_distillation               (section 6.1)
    L_total = 1/t * L_current + (1 - 1/t) * L_replay                                                       (section 4.2)

The encoder is the classifier's backbone, so that one network classifies and dreams.

Differences from the paper: L_generative is a mean over pixels and has a weight of its own, `generative`; the paper
has none. New classes have probability 0 in replayed labels. The decoder is a perceptron behind any backbone.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from itaml.learners.batch import Batch
from itaml.learners.generative import GenerativeLearner, GenerativeSettings
from itaml.learners.settings import Positive
from itaml.meta.inner import normalized_alone
from itaml.models.vae import Feedback


class RtFSettings(GenerativeSettings):
    """Settings of RtF."""

    generative: Positive = 1.0  # weight of L_generative


class RtF(GenerativeLearner):
    """A classifier with a generator behind its own features."""

    Settings: ClassVar[type[RtFSettings]] = RtFSettings
    settings: RtFSettings
    generator: Feedback

    @property
    def compiles(self) -> bool:
        """Training reads the features as well as the logits."""
        return False

    def make_generator(self) -> Feedback:
        """Return untrained feedback connections."""
        s, features = self.settings, self.model.head.weight.shape[1]
        return Feedback(features, self.model.shape, hidden=s.generator_hidden[::-1], latent=s.latent)

    def new_loss(self, batch: Batch) -> Tensor:
        """Return L_current."""
        logits, generative = self._both(batch.images)
        return self.settings.generative * generative + self.sample_losses(logits, batch).mean()

    def replay_loss(self, pictures: Tensor) -> Tensor:
        """Return L_replay."""
        (logits, generative), former = self._both(pictures), self.taught(pictures)
        return self.settings.generative * generative + self.distilled(logits, former)

    def _both(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and L_generative, from one pass through the backbone."""
        with normalized_alone(self.model, len(images)), self.autocast():
            features = self.model.features(images)
            logits = self.model.head(features)
        return logits.float(), self.generator.losses(features.float(), images).mean()
