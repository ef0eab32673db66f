"""Forward transfer: what learning earlier tasks has done for a task that is not learned yet.

GEM (Lopez-Paz and Ranzato, 2017) defines it as the mean over i = 2..T of R(i-1, i) - b(i): the test accuracy on task i
right before it is learned, minus that of the model at initialisation. A head that grows has no outputs for classes that
are not learned, so that R(i-1, i) of the whole model is 0 by construction and says nothing. What can be measured is the
backbone: here R and b are the accuracy, among the classes of the task, of the nearest class mean in the space of the
present features, with means of the first `SHOTS` training images of each class, on its first `TESTS` test images; of
fewer where a task has so many classes that this would be more than `MOST` images. So the formula is GEM's and the
classifier is not, and the numbers cannot be compared with those of the GEM paper.

It is not measurable, and None, for a single task, for tasks of a single class, and for learners without features.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from itaml.data.images import ClassId, ImageSet
from itaml.data.ownership import read_together
from itaml.data.stream import Task
from itaml.learners.api import Learner
from itaml.models.sharded_layers import in_shares

SHOTS, TESTS = 20, 100  # images of each class
MOST = 2000  # images of a task for the means, and as many for the test, unless it has more classes


def nearest_mean_accuracy(learner: Learner, task: Task, test: ImageSet) -> float | None:
    """Return the accuracy of the nearest class mean in a learner's present features; the learner is not changed.

    All processes of a run must call this together.

    Args:
        learner: has a method `features`, itself or in its `predictor`; else the result is None.
        task: whose training images give the means.
        test: test images of the same classes.
    """
    features = getattr(getattr(learner, "predictor", learner), "features", None)
    if features is None or len(task.classes) < 2:
        return None
    images, labels = _first(task.train, task.classes, SHOTS)
    test_images, truth = _first(test, task.classes, TESTS)
    known = torch.tensor([class_id for class_id in task.classes if bool((labels == class_id).any())])
    if len(known) < 2 or not len(truth):
        return None
    features = partial(in_shares, features)
    points = features(images).double()
    means = torch.stack([points[labels == class_id].mean(0) for class_id in known])
    nearest = known[torch.cdist(features(test_images).double(), means).argmin(1)]
    return float((nearest == truth).double().mean())


def _first(images: ImageSet, classes: Sequence[ClassId], count: int) -> tuple[Tensor, Tensor]:
    """Read the first images of each class."""
    count = max(1, min(count, MOST // len(classes)))
    positions = [(images.labels == class_id).nonzero().flatten()[:count] for class_id in classes]
    return read_together(images, torch.cat(positions))
