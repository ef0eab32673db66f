"""Data sets of Hugging Face's `datasets` and of torchvision's form become streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.data.dataset_wrappers import stream_from_items

NAMES = ["red", "green", "blue", "grey"]


def image(label: int, seed: int) -> Image.Image:
    draw = np.random.default_rng(100 * label + seed)
    return Image.fromarray(draw.integers(0, 256, (10, 12, 3), dtype=np.uint8))


class VisionDataset:
    """Has the form of torchvision's data sets."""

    def __init__(self, count: int) -> None:
        self.targets = [label for label in range(4) for _ in range(count)]
        self.classes = NAMES
        self.transform = self.target_transform = None

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return image(self.targets[index], index), self.targets[index]


def check(train: Any, test: Any) -> None:
    stream = stream_from_items(train, test, tasks=2, size=8)
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]
    assert list(stream.class_names) == NAMES
    pixels, labels = stream[0].train.load()
    assert (tuple(pixels.shape), labels.tolist()) == ((6, 3, 8, 8), [0, 0, 0, 1, 1, 1])
    assert pixels.dtype == torch.uint8


def test_a_data_set_of_torchvisions_form_is_a_stream_in_two_lines() -> None:
    check(VisionDataset(3), VisionDataset(1))


def test_a_data_set_of_hugging_face_is_a_stream_in_two_lines() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})

    def made(count: int) -> Any:
        labels = [label for label in range(4) for _ in range(count)]
        images = [image(label, row) for row, label in enumerate(labels)]
        return datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)

    check(made(3), made(1))
