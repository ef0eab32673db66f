"""What a head needs besides the statistics: chosen once per learn on exemplars that were left out, and stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from itaml.errors import CheckpointError
from itaml.inference.temperature import fit_temperature
from itaml.inference.unknown import UnknownDetector, fit_unknown_detector, score_signals
from itaml.learners.components.linear_heads import LinearHead

REFUSE = 0.05  # share of known images that may be called unknown


@dataclass(frozen=True, eq=False)
class HeadFit:
    """Values that follow from left-out exemplars, which need not be computed again when a model is opened."""

    temperature: float  # of the probabilities
    detector: UnknownDetector
    shrinkage: float = 0.0  # of LDA's covariance
    noise: float = 0.0  # of LDA's class means (see `leave_one_out`)
    left_out: tuple[Tensor, Tensor] | None = None  # classes of left-out exemplars, and what was predicted; not stored

    def state_dict(self) -> dict[str, Tensor]:
        """Return the values as tensors."""
        values = [self.temperature, self.shrinkage, self.noise, self.detector.threshold]
        return {
            "values": torch.tensor(values, dtype=torch.float64),
            "mean": self.detector.mean.clone(),
            "std": self.detector.std.clone(),
            "weights": torch.ones_like(self.detector.std) if self.detector.weights is None else self.detector.weights,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> HeadFit:
        """Return the fit that `state_dict` described.

        Raises:
            CheckpointError: it is not such a state.
        """
        values, mean, std, weights = (state.get(name) for name in ("values", "mean", "std", "weights"))
        if not (isinstance(values, Tensor) and values.shape == (4,) and values[0] > 0):
            raise CheckpointError("the calibration of this state is damaged")
        shapes = {tuple(part.shape) if isinstance(part, Tensor) else None for part in (mean, std, weights)}
        if len(shapes) != 1 or not isinstance(mean, Tensor) or mean.ndim != 1:
            raise CheckpointError("the signals of unknown images of this state are damaged")
        assert isinstance(std, Tensor)
        assert isinstance(weights, Tensor)
        temperature, shrinkage, noise, threshold = values.tolist()
        return cls(temperature, UnknownDetector(mean, std, threshold, weights), shrinkage, noise)


@dataclass(frozen=True, eq=False)
class ScoreHead:
    """A linear head whose scores alone say whether an image is known."""

    linear: LinearHead
    temperature: float

    @property
    def classes(self) -> tuple[int, ...]:
        """Class of each column."""
        return self.linear.classes

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores (n, classes), not divided by the temperature."""
        return self.linear(features)

    def signals(self, features: Tensor) -> Tensor:
        """Return the signals (n, 2) of `score_signals`."""
        return score_signals(self.linear(features) / self.temperature)


def fit_scores(scores: Tensor | None, columns: Tensor, *, default: float, refuse: float = REFUSE) -> HeadFit:
    """Fit the temperature and the threshold of a `ScoreHead`.

    Args:
        scores: of exemplars that were left out (n, classes); None or -inf at the own class where that is impossible.
        columns: column of the right class (n,).
        default: the temperature where there are too few images.
        refuse: share of known images that may be called unknown.
    """
    if scores is None:
        scores, columns = torch.zeros(0, 1, dtype=torch.float64), columns[:0]
    usable = scores.gather(1, columns[:, None])[:, 0].isfinite()
    scores, columns = scores[usable], columns[usable]
    temperature = fit_temperature(scores, columns, default=default)
    if not math.isfinite(temperature) or temperature <= 0:
        temperature = 1.0
    return HeadFit(temperature, fit_unknown_detector(score_signals(scores / temperature), refuse=refuse))
