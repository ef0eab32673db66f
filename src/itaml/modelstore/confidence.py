"""Calibrated confidence, and unknown images, of learners that say neither themselves.

After each learn a temperature for the probabilities and a threshold are fitted to the validation images, each alone.
The signal of an unknown image is the log-odds of the most probable class. The threshold is the k-th smallest signal of
n validation images, k = floor((n + 1) / 20): a new image of a known class is below it with probability k / (n + 1),
5 % at most (conformal prediction), and with fewer than 19 nothing is refused. Learners with a calibration of their own
(`learners.api.KnowsUnknown`) are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from itaml.data.images import ClassId
from itaml.errors import CheckpointError
from itaml.inference.temperature import FEWEST, fit_temperature
from itaml.inference.unknown import UnknownDetector, score_signals
from itaml.learners.api import Learner, Prediction
from itaml.learners.components.head_fit import REFUSE

LEAST_PROBABILITY = 1e-12
BATCH = 500
NEVER = UnknownDetector(torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64), -torch.inf)


@dataclass(frozen=True, eq=False)
class Confidence:
    """What turns a learner's probabilities into calibrated ones, and says which images are unknown."""

    temperature: float = 1.0
    detector: UnknownDetector = NEVER

    def __call__(self, prediction: Prediction) -> Prediction:
        """Return a prediction with calibrated probabilities and `unknown`; the classes stay."""
        if prediction.unknown is not None:
            return prediction
        scores = _log(prediction.probabilities) / self.temperature
        unknown_scores = -self.detector.score(_signal(scores))
        return replace(
            prediction,
            probabilities=scores.softmax(1).float(),
            unknown=unknown_scores > self.unknown_threshold,
            unknown_scores=unknown_scores,
        )

    @property
    def unknown_threshold(self) -> float:
        """Score above which an image is unknown; infinite: none is."""
        return -self.detector.threshold

    def state_dict(self) -> dict[str, Tensor]:
        """Return the values as tensors."""
        values = torch.tensor([self.temperature, self.detector.threshold], dtype=torch.float64)
        return {"values": values, "mean": self.detector.mean, "std": self.detector.std}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Confidence:
        """Return what `state_dict` described; nothing is calibrated in models that were stored without it.

        Raises:
            CheckpointError: it is not such a state.
        """
        if state is None:
            return UNCALIBRATED
        values, mean, std = (state.get(name) for name in ("values", "mean", "std"))
        shapes = [tuple(value.shape) if isinstance(value, Tensor) else None for value in (values, mean, std)]
        if shapes != [(2,), (1,), (1,)] or not isinstance(values, Tensor) or not bool(values[0] > 0):
            raise CheckpointError("the calibration of the confidence is damaged")
        assert isinstance(mean, Tensor)
        assert isinstance(std, Tensor)
        return cls(float(values[0]), UnknownDetector(mean, std, float(values[1])))


UNCALIBRATED = Confidence()


def fit_confidence(learner: Learner, validation: Mapping[ClassId, Tensor]) -> Confidence:
    """Fit to validation samples of each class; fewer than ten leave the probabilities as they are."""
    classes = [label for label, samples in validation.items() if len(samples)]
    if sum(len(validation[label]) for label in classes) < FEWEST:
        return UNCALIBRATED
    samples = torch.cat([validation[label] for label in classes])
    labels = [label for label in classes for _ in range(len(validation[label]))]
    parts = []
    for part in samples.split(BATCH):
        found = learner.predict(part, torch.arange(len(part)))
        if found.unknown is not None:
            return UNCALIBRATED
        parts.append(_log(found.probabilities))
    scores = torch.cat(parts)
    column = {label: number for number, label in enumerate(found.columns)}
    temperature = fit_temperature(scores, torch.tensor([column[label] for label in labels]), smooth=True)
    return Confidence(temperature, _detector(_signal(scores / temperature)[:, 0]))


def _detector(signals: Tensor) -> UnknownDetector:
    rank = int(REFUSE * (len(signals) + 1))
    return replace(NEVER, threshold=float(signals.sort().values[rank - 1])) if rank else NEVER


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.double().clamp_min(LEAST_PROBABILITY).log()


def _signal(scores: Tensor) -> Tensor:
    return score_signals(scores)[:, 1:]
