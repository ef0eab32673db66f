"""Learners on images, or on the frozen features of a pretrained backbone where the settings name one."""

from __future__ import annotations

from collections.abc import Callable

from itaml.config import Compute
from itaml.data.images import Shape
from itaml.learners.api import Learner
from itaml.learners.components.feature_cache import user_cache
from itaml.learners.compute import pick_device
from itaml.learners.frozen import FrozenLearner
from itaml.models.features import Transform, open_extractor
from itaml.models.pretrained import is_pretrained


def on_features(
    backbone: str,
    make: Callable[[Shape], Learner],
    *,
    shape: Shape,
    compute: Compute | None,
    flip: bool,
    transform: Transform,
) -> Learner:
    """Return a learner: of images of `shape`, or of their features if `backbone` is pretrained.

    Args:
        backbone: its name.
        make: makes a learner for images, or features, of a shape.
        shape: of the images.
        compute: where the backbone computes.
        flip: average the features of each image and of its horizontal flip.
        transform: of the features.
    """
    if not is_pretrained(backbone):
        return make(shape)
    extractor = open_extractor(backbone, flip=flip, transform=transform, device=pick_device(compute or Compute()))
    return FrozenLearner(make((extractor.features, 1, 1)), extractor, shape=shape, cache=user_cache())
