"""Choose the image size, the network and the training for a person's own images, unless told.

| what         | rule                                                                                            |
|--------------|-------------------------------------------------------------------------------------------------|
| image size   | by the median shorter side: up to 20 the next of 8, 12, 16, 20; below 48, 32; else 64           |
| network      | up to 20 pixels `mlp`; else `resnet18-small` on a CPU and `resnet18-third` with a GPU           |
| augmentation | up to 20 pixels none; grey images `crop`, because letters must not be flipped; else `crop-flip` |
| epochs       | so that a learn sees about `IMAGES_SEEN` images, but 8 epochs at least and 60 at most           |
| batch        | 64, or 32 where there are fewer than 1,000 images                                               |

The optimiser is SGD with momentum and a cosine schedule, with a warm-up and weight decay for networks with
convolutions; presets other than `best` are left as they are in that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itaml.config import DEFAULT_PRESET, build, load_preset
from itaml.data.images import Shape
from itaml.errors import SettingsError
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models import MODELS
from itaml.modelstore.manifest import Options

SMALL_SIDES = (8, 12, 16, 20)
IMAGES_SEEN = 60_000
MIN_EPOCHS, MAX_EPOCHS = 8, 60
MIN_CNN_SIDE = 16  # below, the last stage of a network is a single pixel
COMMON_TRAINING: Mapping[str, Any] = {
    "optimizer": "sgd",
    "lr": 0.05,
    "momentum": 0.9,
    "schedule": "cosine",
    "clip": 5.0,
}
CNN_TRAINING: Mapping[str, Any] = {**COMMON_TRAINING, "weight_decay": 5e-4, "warmup": 0.1}
MLP: Mapping[str, Any] = {**COMMON_TRAINING, "weight_decay": 0.0, "warmup": 0.0}


@dataclass(frozen=True)
class ImageStatistics:
    """What the images look like: how many there are, their median shorter side, and whether all are grey."""

    images: int
    side: int
    grey: bool


def default_image_size(options: Options, statistics: ImageStatistics) -> int:
    """Return the side at which images are decoded."""
    if options.image_size is not None:
        return options.image_size
    if statistics.side <= SMALL_SIDES[-1]:
        return next(side for side in SMALL_SIDES if statistics.side <= side)
    return 32 if statistics.side < 48 else 64


def default_settings(options: Options, statistics: ImageStatistics, shape: Shape, *, gpu: bool) -> ITAMLSettings:
    """Return the learner's settings for a new model.

    Raises:
        UnknownNameError: no such preset, network or setting.
        SettingsError: a value that is not possible.
    """
    side = min(shape[1:])
    small = side <= SMALL_SIDES[-1]
    backbone = options.backbone or ("mlp" if small else "resnet18-third" if gpu else "resnet18-small")
    MODELS.entry(backbone)
    if backbone.startswith("resnet") and side < MIN_CNN_SIDE:
        raise SettingsError(
            f"{backbone} needs images of {MIN_CNN_SIDE} pixels or more, not {side}: "
            f"give --image-size {MIN_CNN_SIDE} or --backbone mlp"
        )
    values = load_preset("itaml", options.preset, benchmark="library")
    if options.preset == DEFAULT_PRESET:
        values |= MLP if backbone == "mlp" else CNN_TRAINING
    values |= {
        "backbone": backbone,
        "memory": options.memory,
        "horizon": "open",
        "augment": "none" if small else "crop" if statistics.grey else "crop-flip",
        "batch_size": 64 if statistics.images >= 1000 else 32,
    }
    return build(ITAMLSettings, values | {"epochs": default_epochs(options, statistics.images)} | options.settings)


def default_epochs(options: Options, images: int) -> int:
    """Return how many epochs to learn for, with `images` in each."""
    if options.epochs is not None:
        return options.epochs
    return min(max(round(IMAGES_SEEN / max(images, 1)), MIN_EPOCHS), MAX_EPOCHS)
