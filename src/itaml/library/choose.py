"""Choose the image size, the network and the training for a person's own images, unless told.

| what          | rule                                                                                               |
|---------------|----------------------------------------------------------------------------------------------------|
| image size    | by the median shorter side: up to 20 the next of 8, 12, 16, 20; below 48, 32; else 64               |
| network       | up to 20 pixels `mlp`; else `resnet18-small` on a CPU and `resnet18-third` with a GPU         |
| augmentation  | up to 20 pixels none; grey images `crop`, because letters must not be mirrored; else `crop-flip`    |
| epochs        | so that a learn sees about `IMAGES_SEEN` images, but 8 epochs at least and 60 at most               |
| batch         | 64, or 32 where there are fewer than 1,000 images                                                   |

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
from itaml.library.record import Options
from itaml.models import MODELS

SMALL_SIDES = (8, 12, 16, 20)
IMAGES_SEEN = 60_000
FEWEST_EPOCHS, MOST_EPOCHS = 8, 60
SMALLEST_CONVOLVED = 16  # below, the last stage of a network is a single pixel
TRAINED: Mapping[str, Any] = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9, "schedule": "cosine", "clip": 5.0}
CONVOLVED: Mapping[str, Any] = {**TRAINED, "weight_decay": 5e-4, "warmup": 0.1}
MLP: Mapping[str, Any] = {**TRAINED, "weight_decay": 0.0, "warmup": 0.0}


@dataclass(frozen=True)
class Look:
    """What the images look like: how many there are, their median shorter side, and whether all are grey."""

    images: int
    side: int
    grey: bool


def choose_size(options: Options, look: Look) -> int:
    """Return the side at which images are decoded."""
    if options.image_size is not None:
        return options.image_size
    if look.side <= SMALL_SIDES[-1]:
        return next(side for side in SMALL_SIDES if look.side <= side)
    return 32 if look.side < 48 else 64


def choose_settings(options: Options, look: Look, shape: Shape, *, gpu: bool) -> ITAMLSettings:
    """Return the learner's settings for a new model.

    Raises:
        UnknownNameError: no such preset, network or setting.
        SettingsError: a value that is not possible.
    """
    side = min(shape[1:])
    small = side <= SMALL_SIDES[-1]
    backbone = options.backbone or ("mlp" if small else "resnet18-third" if gpu else "resnet18-small")
    MODELS.entry(backbone)
    if backbone.startswith("resnet") and side < SMALLEST_CONVOLVED:
        raise SettingsError(
            f"{backbone} needs images of {SMALLEST_CONVOLVED} pixels or more, not {side}: "
            f"give --image-size {SMALLEST_CONVOLVED} or --backbone mlp"
        )
    values = load_preset("itaml", options.preset, benchmark="library")
    if options.preset == DEFAULT_PRESET:
        values |= MLP if backbone == "mlp" else CONVOLVED
    values |= {
        "backbone": backbone,
        "memory": options.memory,
        "horizon": "open",
        "augment": "none" if small else "crop" if look.grey else "crop-flip",
        "batch_size": 64 if look.images >= 1000 else 32,
    }
    return build(ITAMLSettings, values | {"epochs": choose_epochs(options, look.images)} | options.settings)


def choose_epochs(options: Options, images: int) -> int:
    """Return how many epochs to learn for, with `images` in each."""
    if options.epochs is not None:
        return options.epochs
    return min(max(round(IMAGES_SEEN / max(images, 1)), FEWEST_EPOCHS), MOST_EPOCHS)
