"""Data set objects of other libraries, imitated here by their public form, as sets of images and streams."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.data.dataset_wrappers import from_items, stream_from_items
from itaml.errors import DataError

RAMP = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
AS_TENSOR = torch.from_numpy(RAMP).permute(2, 0, 1)  # (3, 4, 6)


class Torchvision:
    """Has (PIL image, label) items, `targets` and `classes`; counts how many images were asked for."""

    classes = ("cat", "dog")
    target_transform: Any = None

    def __init__(self, count: int = 6) -> None:
        self.targets = [row % 2 for row in range(count)]
        self.asked = 0

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[Image.Image, int]:
        self.asked += 1
        label = self.targets[row]
        return Image.fromarray(RAMP + row), self.target_transform(label) if self.target_transform else label


class HuggingFace:
    """Has dictionaries as rows, and columns by name."""

    column_names = ["image", "label"]  # noqa: RUF012

    def __len__(self) -> int:
        return 4

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return [row % 2 for row in range(4)]
        return {"image": Image.fromarray(RAMP + key), "label": key % 2}


@pytest.mark.parametrize(
    "image",
    [RAMP, AS_TENSOR, Image.fromarray(RAMP), Image.fromarray(RAMP).convert("RGBA")],
    ids=["array", "tensor", "image", "alpha"],
)
def test_every_kind_of_image_becomes_the_same_pixels(image: Any) -> None:
    images, labels = from_items([(image, 3)]).load()
    assert torch.equal(images[0], AS_TENSOR)
    assert labels.tolist() == [3]


def test_other_numbers_are_brought_to_bytes_or_kept_as_floats() -> None:
    wide = np.array([[0, 257], [65535, 128 * 257]], dtype=np.uint16)
    assert from_items([(wide, 0)]).load()[0].flatten().tolist() == [0, 1, 255, 128]
    assert from_items([(wide > 0, 0)]).load()[0].flatten().tolist() == [0, 255, 255, 255]
    floats = from_items([(np.full((2, 2), 0.25), 0)]).load()[0]
    assert floats.dtype == torch.float32
    assert floats.unique().tolist() == [0.25]


def test_images_are_read_only_when_they_are_wanted() -> None:
    items = Torchvision()
    images = from_items(items)
    assert items.asked == 1  # the first, for its shape
    assert images.labels.tolist() == [0, 1, 0, 1, 0, 1]
    read, labels = images.of_classes([1]).load()
    assert items.asked == 4
    assert torch.equal(read[2], AS_TENSOR + 5)
    assert labels.tolist() == [1, 1, 1]


def test_a_target_transform_is_obeyed() -> None:
    items = Torchvision()
    items.target_transform = lambda label: label + 7
    assert from_items(items).labels.tolist() == [7, 8, 7, 8, 7, 8]


def test_dictionaries_and_columns_are_understood() -> None:
    images, labels = from_items(HuggingFace()).load()
    assert torch.equal(images[3], AS_TENSOR + 3)
    assert labels.tolist() == [0, 1, 0, 1]


def test_a_size_makes_squares_of_the_centre() -> None:
    wide = np.zeros((8, 24, 3), dtype=np.uint8)
    wide[:, 8:16] = 200
    images, _ = from_items([(wide, 0), (wide[:, 8:16], 0)], 4).load()
    assert images.shape == (2, 3, 4, 4)
    assert (images == 200).all()


def test_channels_follow_the_first_image() -> None:
    grey = np.full((2, 2), 100, dtype=np.uint8)
    red = np.zeros((2, 2, 3), dtype=np.uint8)
    red[..., 0] = 255
    assert from_items([(grey, 0), (red, 1)]).load()[0][1].unique().tolist() == [76]
    assert from_items([(red, 0), (grey, 1)]).load()[0][1].unique().tolist() == [100]


def test_a_stream_of_names_and_one_of_an_object_with_classes() -> None:
    items = [(RAMP, name) for name in ("dog", "ant", "cat", "bee")]
    stream = stream_from_items(items, items, tasks=2, size=8)
    assert stream.class_names == ("ant", "bee", "cat", "dog")
    assert [task.classes for task in stream] == [(0, 1), (2, 3)]
    assert stream.test(1).labels.tolist() == [3, 2]
    named = stream_from_items(Torchvision(), Torchvision(2), tasks=[1, 1], size=8)
    assert named.class_names == ("cat", "dog")
    assert named.shape == (3, 8, 8)


BAD: dict[str, tuple[Any, str]] = {
    "nothing": ([], "without items"),
    "no pairs": ([7], "item 0 is not an .image, label. pair"),
    "no image": ([("image.png", 0)], "item 0 is no image"),
    "five channels": ([(torch.zeros(5, 2, 2), 0)], "1 or 3 channels"),
    "integers": ([(np.zeros((2, 2), dtype=np.int64), 0)], "int64"),
    "a name": ([(RAMP, "cat")], "'cat' is a name without a number"),
    "negative": ([(RAMP, -1)], "label -1 is below 0"),
    "no number": ([(RAMP, None)], "whole numbers or names"),
}


@pytest.mark.parametrize("kind", BAD)
def test_items_that_are_no_images_with_labels_are_refused(kind: str) -> None:
    items, message = BAD[kind]
    with pytest.raises(DataError, match=message):
        from_items(items)


def test_images_of_another_shape_or_type_are_refused_when_read() -> None:
    with pytest.raises(DataError, match=r"item 1 is .*give a size"):
        from_items([(RAMP, 0), (RAMP[:2], 0)]).load()
    with pytest.raises(DataError, match="item 1 has pixels of type"):
        from_items([(RAMP, 0), (RAMP / 255, 0)]).load()
    with pytest.raises(DataError, match="label 3, but only 2 classes"):
        stream_from_items([(RAMP, 0), (RAMP, 1)], [(RAMP, 3)], tasks=2, size=4)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_dataset.py"))
    assert capsys.readouterr().out.splitlines()[:2] == [
        "task 0: blue, green; 60 images of shape (3, 8, 8)",
        "task 1: grey, red; 60 images of shape (3, 8, 8)",
    ]
