"""A head that is fitted to features drawn from the Gaussians of all classes, old and new alike.

The head that training leaves favours new classes, and knows old ones by a few exemplars, whose features the network
fits better than those of any other image. Gaussians of all images of a class, carried along (`class_gaussians`), know
old classes better. Fitting the head to draws from them is Classifier Alignment (Zhang et al., SLCA, ICCV 2023); here
it is anchored to the head of training, and `share` of the way towards it is gone. Training goes on with its own head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from itaml import seeding
from itaml.inference.class_gaussians import Gaussian
from itaml.inference.own_head import OwnHead, fit_anchored
from itaml.params import Weights

if TYPE_CHECKING:
    from itaml.inference.predictor import Predictor

DRAWS = 64  # of each class
ANCHOR, STEPS = 0.03, 50  # see `fit_anchored`


def aligned_head(head: OwnHead, gaussians: Sequence[Gaussian], *, share: float, generator: torch.Generator) -> OwnHead:
    """Return the head of inference.

    Args:
        head: that of training.
        gaussians: one for each row.
        share: 0 is the head of training, 1 the one fitted to the Gaussians.
        generator: draws the features.
    """
    features = torch.cat([one.draw(DRAWS, generator) for one in gaussians])
    targets = torch.arange(len(gaussians)).repeat_interleave(DRAWS)
    fitted = fit_anchored(head, features, targets, anchor=ANCHOR, steps=STEPS)
    start = head.double()
    return OwnHead(torch.lerp(start.weight, fitted.weight, share), torch.lerp(start.bias, fitted.bias, share))


def align(predictor: Predictor) -> Weights:
    """Return a predictor's aligned head by the names of the classifier's weights; {} if a class has no Gaussian."""
    head, gaussians = predictor.model.head, predictor.gaussians.of(predictor.task_map.classes)
    if gaussians is None:
        return {}
    found = aligned_head(
        OwnHead(head.weight.detach().cpu(), head.bias.detach().cpu()),
        gaussians,
        share=predictor.settings.align_head,
        generator=seeding.generator(predictor.seeds.adapt, "align", len(gaussians)),
    )
    return {"head.weight": found.weight.to(head.weight), "head.bias": found.bias.to(head.bias)}
