"""scikit-learn's embedded 8x8 digits: 1,797 grey images of ten classes, no download."""

from __future__ import annotations

import torch

from itaml import seeding
from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet
from itaml.data.stream import Dataset

TEST_SHARE = 5  # one image in five of each class is for testing; the division never changes


def load(options: LoadOptions) -> Dataset:
    """Return the digits, divided into training and test images once and for all."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (a second to import, and only needed here)

    raw = load_digits()
    images = (torch.from_numpy(raw.images).float() * (255 / 16)).round().to(torch.uint8).unsqueeze(1)  # (n, 1, 8, 8)
    labels = torch.from_numpy(raw.target).long()
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = (labels == digit).nonzero().flatten()
        shuffle = torch.randperm(len(members), generator=seeding.generator(0, "digits", digit))
        test[members[shuffle[: len(members) // TEST_SHARE]]] = True
    everything = ImageSet.from_arrays(images, labels)
    return Dataset(
        "digits",
        tuple(map(str, range(10))),
        everything.select((~test).nonzero().flatten()),
        everything.select(test.nonzero().flatten()),
    )
