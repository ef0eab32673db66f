"""What the methods without gradient steps differ in: how a head follows from sums of features, and their settings."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import Field
from torch import Tensor

from itaml.config import Settings
from itaml.learners.components.head_fit import HeadFit
from itaml.learners.components.statistics import FeatureStatistics
from itaml.models.features import Transform


class StatisticsSettings(Settings):
    """Settings of a classifier that follows from sums of features."""

    backbone: str = "pixels"  # the pixels themselves, or a pretrained backbone (see `models.backbones.hub`)
    feature_flip: bool = True  # average the features of each image and of its horizontal flip
    feature_transform: Transform = "sqrt"  # of the features of a backbone
    memory: Annotated[int, Field(ge=0)] = 2000  # exemplars in all
    selection: Literal["content", "random", "herding", "first"] = "content"  # `content`: the same in any order

    @property
    def room(self) -> int:
        """Exemplars in all, which must hold one of every class."""
        return self.memory


class Head(Protocol):
    """Scores features; made of statistics and a `HeadFit`."""

    @property
    def classes(self) -> tuple[int, ...]:
        """Class of each column, sorted."""

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores (n, classes), not divided by the temperature."""

    def signals(self, features: Tensor) -> Tensor:
        """Return the signals (n, signals) from which the fit's detector tells unknown images."""


class Solver(Protocol):
    """How a method turns statistics into a head."""

    name: str

    def project(self, features: Tensor) -> Tensor:
        """Return what the statistics are collected of (n, width), from features (n, d)."""

    def width(self, features: int) -> int:
        """Return the length of a projected feature vector."""

    def fit(self, statistics: FeatureStatistics, exemplars: tuple[Tensor, Tensor]) -> HeadFit:
        """Choose what the statistics do not say.

        Args:
            statistics: of all images learned.
            exemplars: projected features (n, width) and labels of some of these images; may be empty.
        """

    def head(self, statistics: FeatureStatistics, fit: HeadFit) -> Head:
        """Return the head."""
