"""A version of a model that the service has loaded: images are decoded from memory, and predicted in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from itaml.config import Compute
from itaml.data.decoding import decode
from itaml.data.images import ImageSet
from itaml.learners.api import Learner
from itaml.learners.components.feature_cache import FeatureCache
from itaml.learners.frozen import FrozenLearner
from itaml.modelstore.checksummed_json import Pointer
from itaml.modelstore.image_arrays import resized
from itaml.modelstore.loaded_model import Model, restore, restored
from itaml.modelstore.manifest import PixelFormat
from itaml.modelstore.model_folder import ModelFolder, Version
from itaml.modelstore.pixels import BYTES, convert, with_channels
from itaml.modelstore.predictions import Grouping, ImagePrediction, PredictionInput, Unknown, predict_images

FEATURES = 256  # of images that were predicted last are kept, for the same images in another mode
EMPTY_SHAPE = (3, 64, 64)
MODES: dict[str, Grouping] = {"alone": "each", "continuum": "all", "stream": "stream"}


@dataclass(frozen=True)
class PredictOptions:
    """How images are to be predicted; requests with equal options share a batch."""

    mode: str = "alone"
    top: int = 3
    unknown: Unknown = "auto"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A version in memory."""

    pointer: Pointer
    model: Model
    folder: ModelFolder

    @property
    def version(self) -> int:
        """Its number."""
        return self.pointer.number

    @property
    def empty(self) -> bool:
        """Whether nothing was learned yet."""
        return self.model.learner is None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes."""
        return self.model.manifest.classes

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image (c, h, w); of an empty model, one that is good enough to compare images."""
        return self.model.manifest.shape or EMPTY_SHAPE

    @property
    def pixels(self) -> PixelFormat:
        """The form of its pixels."""
        return self.model.manifest.pixels or BYTES

    def decode(self, data: bytes, *, max_pixels: int) -> Tensor:
        """Return an image file as the model's pixels (c, h, w), exactly as `ImageClassifier.predict` reads it.

        Raises:
            BadImageError: it is not an image, broken, or too large.
        """
        channels, height, width = self.shape
        square, fitting = height if height == width else None, self.model.manifest.fitting
        array = decode(data, size=square, fitting=fitting, max_pixels=max_pixels)
        pixels = torch.from_numpy(np.ascontiguousarray(array).copy()).permute(2, 0, 1)[None]
        pixels = with_channels(resized(pixels, height, width), channels)
        return convert(pixels, BYTES, self.pixels)[0].contiguous()

    def predict(self, images: Sequence[Tensor], options: PredictOptions) -> list[ImagePrediction]:
        """Predict decoded images together, in order."""
        if not images:
            return []
        found = ImageSet.from_arrays(torch.stack(list(images)), torch.zeros(len(images), dtype=torch.int64))
        return predict_images(
            self.model,
            PredictionInput(found, (None,) * len(images)),
            by=MODES[options.mode],
            mean_run=None,
            top=options.top,
            unknown=options.unknown,
        )


def load(path: Path, *, like: ServedModel | None = None) -> ServedModel:
    """Read the version in use, check every byte of it, and build its learner; `like` lends the backbone.

    Raises:
        ItamlError: there is no model, or it is damaged.
    """
    folder = ModelFolder(path)
    version = folder.read()
    return ServedModel(version.pointer, _model(path, version, None if like is None else like.model.learner), folder)


def _model(path: Path, version: Version, like: Learner | None) -> Model:
    if like is not None:
        return restore(version.manifest, version.state, Compute(), like=like)
    model = restored(f"{path}: version {version.number}", version.manifest, version.state, Compute())
    if isinstance(model.learner, FrozenLearner):  # photos that are named leave nothing on the disk
        model.learner.cache = FeatureCache(None, most=FEATURES)
    return model
