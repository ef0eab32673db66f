"""What there is to know of a backbone before it is built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackboneTraits:
    """Data that defaults and checks are based on, instead of names of backbones."""

    convolutional: bool = True
    smallest_side: int = 1  # of images, in pixels
    pretrained: bool = False
    image_size: int | None = None  # side at which a pretrained backbone was trained
