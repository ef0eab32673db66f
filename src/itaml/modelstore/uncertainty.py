"""Which images to label next: those whose class the model is least certain of.

The uncertainty of an image is the entropy of its class probabilities, divided by that of equal probabilities for all
classes: 0 where one class is certain, 1 where the model cannot tell any two classes apart. Labelling the images with
the largest uncertainty teaches the most (uncertainty sampling: Lewis and Gale, SIGIR 1994). The probabilities are those
of `predict`, so with groups the other images of a group count too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from itaml.modelstore.predictions import ImagePrediction

Ranking = Literal["uncertain"]


def uncertainty(probabilities: Sequence[float]) -> float:
    """Return the entropy of probabilities as a fraction of the largest that so many classes can have.

    >>> uncertainty([0.5, 0.5]), uncertainty([1.0, 0.0]), uncertainty([1.0])
    (1.0, 0.0, 0.0)
    """
    total = sum(probabilities)
    if len(probabilities) < 2 or total <= 0:
        return 0.0
    shares = [value / total for value in probabilities if value > 0]
    return max(0.0, -sum(share * math.log(share) for share in shares)) / math.log(len(probabilities))


def rank_uncertain(predictions: Iterable[ImagePrediction]) -> list[ImagePrediction]:
    """Return predictions with the most uncertain first, ties by file name, images that cannot be read last.

    Args:
        predictions: with the probabilities of all classes in `top`.
    """

    def key(prediction: ImagePrediction) -> tuple[bool, float, str]:
        uncertain = uncertainty([probability for _, probability in prediction.top])
        return prediction.error is not None, -round(uncertain, 9), prediction.file or ""

    return sorted(predictions, key=key)
