"""A head for inference, fitted to features that are drawn from a Gaussian of every class, old and new.

The trained head favours new classes: of old classes it has seen a few exemplars, and the network fits their features
better than those of other images. The Gaussians (`class_gaussians`) are estimated from all images of a class. Fitting
the head to draws from them is Classifier Alignment (Zhang et al., SLCA, ICCV 2023). Here the fit is anchored to the
trained head, and the result is interpolated with it. The trained head itself is not changed: training continues
with it.
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
    """Return a head between the trained one and one that is fitted to Gaussians.

    Args:
        head: the trained head.
        gaussians: the Gaussian of each row's class.
        share: weight of the fitted head; 0 returns the trained one.
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
