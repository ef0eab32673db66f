"""What several tests build on: small streams, small classifiers in double precision, and comparisons of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from itaml import seeding
from itaml.config import Compute, Seeds
from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet, Shape
from itaml.data.stream import Dataset, TaskStream
from itaml.hardware.probe import Outcome
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.backbones.mlp import mlp
from itaml.models.classifier import Classifier

SHAPE: Shape = (1, 4, 4)
Force = Callable[[Outcome], None]  # the fixture `forced`


def synthetic_stream(
    sizes: Sequence[int] = (2, 2, 2), *, train: int = 10, test: int = 7, shape: Shape = SHAPE, noise: int = 60
) -> TaskStream:
    """Return a stream whose classes are random patterns under noise; tasks have the given numbers of classes."""
    classes = sum(sizes)
    generator = seeding.generator(0, "synthetic")
    patterns = torch.randint(0, 256, (classes, *shape), generator=generator).float()

    def draw(count: int) -> ImageSet:
        labels = torch.arange(classes).repeat_interleave(count)
        spread = noise * torch.randn(len(labels), *shape, generator=generator)
        return ImageSet.from_arrays((patterns[labels] + spread).clamp(0, 255).to(torch.uint8), labels)

    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    splits = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
    names = tuple(f"class {number}" for number in range(classes))
    return TaskStream(Dataset("synthetic", names, draw(train), draw(test)), splits)


def load_small(options: LoadOptions) -> Dataset:
    """Return four classes of 4x4 images, for a benchmark of the tests' own; noisy, so that no number is 0 or 1."""
    return synthetic_stream((2, 2), train=12, test=9, noise=130).dataset


def load_small_8x8(options: LoadOptions) -> Dataset:
    """Return four classes of 8x8 images, for networks that convolve."""
    return synthetic_stream((2, 2), train=9, test=5, shape=(1, 8, 8)).dataset


def small_classifier(
    sizes: Sequence[int], *, hidden: tuple[int, ...] = (5,), backbone: nn.Module | None = None, seed: int = 0
) -> Classifier:
    """Return a classifier in double precision whose head has the given tasks, with biases that are not zero."""
    with seeding.seeded(seed, "small"):
        model = Classifier(backbone or mlp(SHAPE, hidden=hidden), shape=SHAPE)
        start = 0
        for size in sizes:
            model.head.grow(tuple(range(start, start + size)), generator=seeding.generator(seed, "head", start))
            start += size
        nn.init.normal_(model.head.bias)
    return model.double()


def draw_batch(counts: Sequence[int], sizes: Sequence[int], *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return float images and columns, `counts[i]` of task i, shuffled."""
    generator = seeding.generator(seed, "batch")
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    targets = torch.cat(
        [
            start + torch.randint(0, size, (count,), generator=generator)
            for start, size, count in zip(starts, sizes, counts, strict=False)
        ]
    )
    targets = targets[torch.randperm(len(targets), generator=generator)]
    return torch.randn(len(targets), *SHAPE, generator=generator, dtype=torch.float64), targets


def make_itaml(model: Classifier, **settings: Any) -> GradientLearner:
    """Return an iTAML learner with a fixed horizon; settings may name `seeds`."""
    seeds = settings.pop("seeds", Seeds.of(0))
    chosen = ITAMLSettings(**{"horizon": 10, "memory": 60, "epochs": 1, "batch_size": 8} | settings)
    return GradientLearner(ITAML, model, settings=chosen, seeds=seeds, compute=Compute(device="cpu", precision="fp32"))


def fresh_itaml(
    *, hidden: tuple[int, ...] = (8,), shape: Shape = SHAPE, seed: int = 0, **settings: Any
) -> GradientLearner:
    """Return an iTAML learner with a small MLP that has learned nothing."""
    with seeding.seeded(seed, "fresh"):
        model = Classifier(mlp(shape, hidden=hidden), shape=shape)
    return make_itaml(model, **settings)


def gap(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """Return the largest difference between two sets of weights."""
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def same_bits(left: Any, right: Any) -> bool:
    """Say whether two nested states are equal to the bit, types included."""
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(same_bits(left[key], right[key]) for key in left)
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same_bits, left, right))
    return bool(left == right)
