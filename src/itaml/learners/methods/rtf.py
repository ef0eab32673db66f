"""RtF: replay through feedback (van de Ven and Tolias, Generative replay with feedback connections, arXiv 1809.10635).

| symbol           | here                                                                                        |
|------------------|---------------------------------------------------------------------------------------------|
| z                | `latent` variables, behind the classifier's last hidden layer, with a standard normal prior |
| L_classification | cross-entropy of new images                                                                 |
| L_distillation   | cross-entropy with the former self's softened probabilities, of replayed images             |
| L_generative     | the autoencoder's loss, of both                                                             |
| T                | `temperature`                                                                               |

    L_current = L_generative + L_classification,    L_replay = L_generative + L_distillation               (section 6.1)
    L_total = 1/t * L_current + (1 - 1/t) * L_replay                                                       (section 4.2)

The encoder is the classifier's backbone, so that one network classifies and generates.

Differences from the paper: L_generative is a mean over pixels and has a separate weight, `generative`; the paper
has none. New classes have probability 0 in replayed labels. The decoder is an MLP behind any backbone.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from itaml.data.stream import Task
from itaml.inference.predictor import Predictor
from itaml.learners.api import Traits
from itaml.learners.batch import Batch
from itaml.learners.components.generator import GenerativeSettings, Replayer, distilled
from itaml.learners.context import Context
from itaml.learners.method import Method
from itaml.learners.recipe import Recipe
from itaml.learners.settings import Positive
from itaml.models.batch_norm import single_image_batch_norm
from itaml.models.sharded_layers import in_shares
from itaml.models.vae import Feedback
from itaml.shares import Share


class RtFSettings(GenerativeSettings):
    """Settings of RtF."""

    generative: Positive = 1.0  # weight of L_generative


class RtF(Method):
    """A classifier with a generator behind its own features."""

    Settings: ClassVar[type[RtFSettings]] = RtFSettings
    settings: RtFSettings
    traits: ClassVar[Traits] = Traits(memory="none", needs_teacher=True, supports_compile=False)
    saved: ClassVar[tuple[str, ...]] = ("replayer",)

    def __init__(self, context: Context, recipe: Recipe, predictor: Predictor) -> None:
        super().__init__(context, recipe, predictor)
        self.replayer = Replayer(context, recipe, self._make_generator)

    def _make_generator(self) -> Feedback:
        s, features = self.settings, self.model.head.weight.shape[1]
        return Feedback(features, self.model.shape, hidden=s.generator_hidden[::-1], latent=s.latent)

    def begin_task(self, task: Task) -> None:
        """Keep the generator as it is."""
        self.replayer.begin_task()

    def end_task(self, task: Task) -> None:
        """Drop the former generator."""
        self.replayer.end_task()

    def param_groups(self) -> list[Any]:
        """Return the weights of the classifier and of the feedback connections."""
        return self.replayer.param_groups(self.settings)

    def networks(self) -> list[nn.Module]:
        """Return the classifier and the feedback connections."""
        return [self.model, self.replayer.generator]

    def loss(self, batch: Batch) -> Tensor:
        """Return L_total: L_current of the batch and L_replay of as many replayed images."""
        batch.logits, generative = self._both(batch.images, batch.share)
        current = self.settings.generative * generative + super().loss(batch)
        return self.replayer.mixed_loss(current, len(batch.targets), self._replay_loss)

    def _replay_loss(self, images: Tensor, share: Share | None = None) -> Tensor:
        """Return L_replay."""
        (logits, generative), former = self._both(images, share), self.recipe.teacher.logits(images, share)
        distillation = distilled(logits, former, temperature=self.settings.temperature)
        return self.settings.generative * generative + distillation

    def _both(self, images: Tensor, share: Share | None = None) -> tuple[Tensor, Tensor]:
        """Return the logits and L_generative, from one pass through the backbone."""
        with single_image_batch_norm(self.model, len(images) if share is None else share.total):
            both = in_shares(self._outputs, images, share)
        return both[:, :-1], both[:, -1].mean()

    def _outputs(self, images: Tensor) -> Tensor:
        """Return each image's logits and, in the last column, its generative loss (n, columns + 1)."""
        assert isinstance(self.replayer.generator, Feedback)
        with self.context.autocast():
            features = self.model.features(images)
            logits = self.model.head(features)
        losses = self.replayer.generator.losses(features.float(), images)
        return torch.cat([logits.float(), losses[:, None]], dim=1)
