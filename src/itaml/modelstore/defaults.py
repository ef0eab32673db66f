"""Choose the method, the image size, the network and the training for a person's own images, unless they are given.

| what         | rule                                                                                            |
|--------------|-------------------------------------------------------------------------------------------------|
| photos       | images in colour whose median shorter side is above 20 pixels                                   |
| method       | `lda` for photos and for pretrained networks, else `itaml`                                      |
| network      | photos: `efficientnet-lite0`, frozen; other images: up to 20 pixels `mlp`, else `resnet18-small` |
|              | on a CPU and `resnet18-third` with a GPU                                                        |
| image size   | that of a pretrained network; else by the median shorter side: up to 20 the next of 8, 12, 16,  |
|              | 20; below 48, 32; else 64                                                                       |
| augmentation | none up to 20 pixels and on frozen features; grey images `crop`, because letters must not be    |
|              | flipped; else `crop-flip`                                                                       |
| epochs       | so that a learn sees about `IMAGES_SEEN` images, but 8 epochs at least and 60 at most           |
| batch        | 64, or 32 where there are fewer than 1,000 images                                               |

The optimiser is SGD with momentum and a cosine schedule, with a warm-up and weight decay for networks with
convolutions; presets other than `best` are left as they are in that. The method's preset says the rest: `best` of
`itaml` has balanced logits, distillation and herding (its table `library`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itaml.config import DEFAULT_PRESET, Settings, build, load_preset
from itaml.data.fitting import PLAIN, Fitting
from itaml.data.images import Shape
from itaml.errors import SettingsError, UnknownNameError
from itaml.learners.api import Traits
from itaml.models import backbone_traits
from itaml.models.features import PIXELS, open_extractor
from itaml.modelstore.loaded_model import factory
from itaml.modelstore.manifest import Options, PixelFormat
from itaml.registry import unknown

PHOTO_METHOD, PHOTO_BACKBONE = "lda", "efficientnet-lite0"
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
    """What the images look like: how many, their median shorter side, whether all are grey, whether they are photos."""

    images: int
    side: int
    grey: bool
    photos: bool = False


def are_photos(side: int, *, grey: bool, pixels: PixelFormat) -> bool:
    """Say whether images of a median shorter side are photos; floats of unknown meaning are not."""
    return side > SMALL_SIDES[-1] and not grey and pixels.dtype == "uint8"


@dataclass(frozen=True)
class Choice:
    """What a new model is made of; `backbone` is None for a method that has none."""

    method: str
    backbone: str | None
    pretrained: bool
    image_size: int
    fitting: Fitting = PLAIN


def choose(options: Options, statistics: ImageStatistics, *, gpu: bool) -> Choice:
    """Return the method, the network and the side at which images are decoded.

    Raises:
        UnknownNameError: no such method or network.
        MissingExtraError: the weights of the network are not installed.
    """
    backbone = options.settings.get("backbone", options.backbone)
    size = default_image_size(options, statistics)
    photos = statistics.photos and (options.image_size is None or options.image_size > SMALL_SIDES[-1])
    if options.method is not None:
        method = options.method
    else:
        wanted = photos if backbone is None else backbone != PIXELS and backbone_traits(backbone).pretrained
        method = PHOTO_METHOD if wanted else "itaml"
    fields = factory(method).Settings.model_fields
    if "backbone" not in fields:
        if options.backbone is not None:
            raise SettingsError(f"{method} has no backbone to choose: leave out --backbone {options.backbone}")
        return Choice(method, None, False, size)
    if backbone is None:
        trained = fields["backbone"].default != PIXELS
        small = "mlp" if size <= SMALL_SIDES[-1] else "resnet18-third" if gpu else "resnet18-small"
        backbone = PHOTO_BACKBONE if photos else small if trained else PIXELS
    pretrained = backbone != PIXELS and backbone_traits(backbone).pretrained
    if not pretrained and backbone != PIXELS and fields["backbone"].default == PIXELS:
        raise SettingsError(
            f"{method} trains no network and {backbone} has no weights: choose a pretrained backbone such as "
            f"{PHOTO_BACKBONE}, or another method"
        )
    if not pretrained:
        return Choice(method, backbone, False, size)
    preprocessing = open_extractor(backbone).backbone.spec.preprocessing
    return Choice(method, backbone, True, options.image_size or preprocessing.size, preprocessing.fitting)


def default_image_size(options: Options, statistics: ImageStatistics) -> int:
    """Return the side at which images for a network without weights of its own are decoded."""
    if options.image_size is not None:
        return options.image_size
    if statistics.side <= SMALL_SIDES[-1]:
        return next(side for side in SMALL_SIDES if statistics.side <= side)
    return 32 if statistics.side < 48 else 64


def default_settings(options: Options, choice: Choice, statistics: ImageStatistics, shape: Shape) -> Settings:
    """Return the learner's settings for a new model.

    Raises:
        UnknownNameError: no such preset or setting.
        SettingsError: a value that is not possible.
    """
    side, backbone = min(shape[1:]), choice.backbone or ""
    small = side <= SMALL_SIDES[-1] or choice.pretrained
    if backbone.startswith("resnet") and side < MIN_CNN_SIDE:
        raise SettingsError(
            f"{backbone} needs images of {MIN_CNN_SIDE} pixels or more, not {side}: "
            f"give --image-size {MIN_CNN_SIDE} or --backbone mlp"
        )
    kind = factory(choice.method)
    values = load_preset(choice.method, options.preset, benchmark="library")
    if options.preset == DEFAULT_PRESET:
        values |= MLP if backbone == "mlp" or choice.pretrained else CNN_TRAINING
    values |= {
        "backbone": choice.backbone,
        "horizon": "open",
        "augment": "none" if small else "crop" if statistics.grey else "crop-flip",
        "batch_size": 64 if statistics.images >= 1000 else 32,
        "epochs": default_epochs(options, statistics.images),
    }
    if getattr(kind, "traits", Traits(memory="none")).uses_memory:
        values["memory"] = options.memory
    fields = kind.Settings.model_fields
    for name in options.settings:
        if name not in fields:
            raise UnknownNameError(unknown("setting", name, fields))
    chosen = {name: value for name, value in values.items() if name in fields} | options.settings
    if chosen.get("memory_bytes"):
        raise SettingsError("a model on disk counts its exemplars in images: use --memory instead of memory_bytes")
    return build(kind.Settings, chosen)


def default_epochs(options: Options, images: int) -> int:
    """Return how many epochs to learn for, with `images` in each."""
    if options.epochs is not None:
        return options.epochs
    return min(max(round(IMAGES_SEEN / max(images, 1)), MIN_EPOCHS), MAX_EPOCHS)
