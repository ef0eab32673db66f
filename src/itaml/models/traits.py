"""Traits of a backbone: what defaults and checks have to know before it is built."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = ("timm", "torchvision", "hf", "file")  # of pretrained backbones, named `source:name`


@dataclass(frozen=True)
class BackboneTraits:
    """Data that defaults and checks are based on, instead of names of backbones."""

    convolutional: bool = True
    smallest_side: int = 1  # of images, in pixels
    pretrained: bool = False
    image_size: int | None = None  # side at which a pretrained backbone was trained
