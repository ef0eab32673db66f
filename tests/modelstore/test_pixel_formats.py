"""One pixel format for each model: every order of formats predicts as well as one format alone, or is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.errors import DataError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.pixels import (
    ANY_FLOATS,
    BYTE_FLOATS,
    BYTES,
    UNIT,
    check_same_scale,
    convert,
    float_format,
    on_grid,
)
from modelstore_support import Bytes, digits_of, tiny_model

FORMS: dict[str, Callable[[Bytes], Any]] = {
    "bytes": lambda images: images,
    "unit": lambda images: (images / 255).astype(np.float32),
    "byte floats": lambda images: images.astype(np.float64),
}
TASKS = ((0, 1), (2, 3), (4, 5))


def as_files(images: Bytes, folder: Path) -> list[str]:
    folder.mkdir(parents=True)
    paths = [str(folder / f"{number}.png") for number in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        Image.fromarray(image).save(path)
    return paths


def given(form: str, images: Bytes, folder: Path) -> Any:
    return as_files(images, folder) if form == "files" else FORMS[form](images)


@pytest.mark.parametrize("order", list(permutations([*FORMS, "files"], 3)), ids="-".join)
def test_every_order_of_formats_gives_the_same_model(tmp_path: Path, order: tuple[str, ...]) -> None:
    """Whatever the formats, the network is trained on the same values; rounding is all that may differ."""
    plain, mixed = tiny_model(tmp_path / "plain", image_size=8), tiny_model(tmp_path / "mixed", image_size=8)
    for number, (form, task) in enumerate(zip(order, TASKS, strict=True)):
        images, labels = digits_of(task, limit=10)
        as_colour = order[0] == "files"  # the first learn decides whether a model is grey
        plain.learn(np.repeat(images[..., None], 3, axis=3) if as_colour else images, labels)
        mixed.learn(given(form, images, tmp_path / str(number)), labels)
    test, _ = digits_of((0, 1, 2, 3, 4, 5), limit=5, skip=20)
    found = [prediction.confidence for prediction in mixed.predict(test)]
    assert found == pytest.approx([prediction.confidence for prediction in plain.predict(test)], abs=0.02)
    for form in [*FORMS, "files"]:
        formed = [prediction.confidence for prediction in mixed.predict(given(form, test, tmp_path / f"test {form}"))]
        assert formed == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("first", FORMS)
def test_accuracy_does_not_depend_on_the_order_of_formats(tmp_path: Path, first: str) -> None:
    classifier = tiny_model(tmp_path / "model", epochs=40)
    second = next(form for form in FORMS if form != first)
    classifier.learn(*_formed(first, digits_of((0, 1), limit=40)))
    classifier.learn(*_formed(second, digits_of((2, 3), limit=40)))
    for formed in FORMS.values():
        images, labels = digits_of((0, 1, 2, 3), limit=20, skip=100)
        found = classifier.predict(formed(images))
        assert np.mean([prediction.label == str(label) for prediction, label in zip(found, labels, strict=True)]) > 0.8


def _formed(form: str, data: tuple[Bytes, list[int]]) -> tuple[Any, list[int]]:
    return FORMS[form](data[0]), data[1]


def test_a_model_of_bytes_refuses_to_store_floats_that_it_would_round(tmp_path: Path) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(*digits_of((0, 1)))
    images, labels = digits_of((2,))
    between = images / 255 * 0.97
    with pytest.raises(DataError, match=r"keeps uint8 images .* convert them with \(images \* 255\)\.round\(\)"):
        classifier.learn(between, labels)
    assert len(classifier.predict(between)) == 12  # to predict, nothing is stored
    assert ImageClassifier.open(classifier.path).version == 1


@pytest.mark.parametrize("floats", [(-1.0, 1.0), (-2.1, 2.6), (0.0, 1.5), (0.0, 1000.0)])
def test_floats_of_an_unknown_range_are_refused_by_models_of_known_range(
    tmp_path: Path, floats: tuple[float, float]
) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(*digits_of((0, 1)))
    images, labels = digits_of((2,))
    scaled = floats[0] + images / 255 * (floats[1] - floats[0])
    for call in (lambda: classifier.learn(scaled, labels), lambda: classifier.predict(scaled)):
        with pytest.raises(DataError, match=r"these floats go from .* scale or clip them"):
            call()


def test_a_model_of_standardised_floats_takes_such_floats_only(tmp_path: Path) -> None:
    classifier = tiny_model(tmp_path / "model", epochs=30)
    images, labels = digits_of((0, 1), limit=30)
    classifier.learn((images - 100.0) / 50, labels)
    assert classifier.info()["pixels"] == {"dtype": "float32", "white": None, "span": pytest.approx((-2.0, 3.1))}
    found = classifier.predict((digits_of((0,), limit=10, skip=50)[0] - 100.0) / 50)
    assert [prediction.label for prediction in found].count("0") >= 8
    with pytest.raises(DataError, match="cannot be converted; give float images scaled like"):
        classifier.predict(images)


@pytest.mark.parametrize("form", [lambda pixels: pixels / 255, lambda pixels: pixels * 1.0])
def test_a_model_of_standardised_floats_refuses_scaled_bytes(tmp_path: Path, form: Callable[[Bytes], Any]) -> None:
    classifier = tiny_model(tmp_path / "model")
    images, labels = digits_of((0, 1), limit=30)
    classifier.learn((images - 100.0) / 50, labels)
    more, names = digits_of((2,))
    with pytest.raises(DataError, match=r"made with floats from -2 to 3.1 \(its first learn\), and these go from 0 to"):
        classifier.learn(form(more), names)
    with pytest.raises(DataError, match="scale them like those"):
        classifier.predict(form(more[:1]))
    assert len(classifier.predict(np.abs((more[:1] - 100.0) / 50))) == 1  # a bright image has no negative values
    classifier.learn((more - 90.0) / 40, names)  # a range that is a little different


@pytest.mark.parametrize(
    ("span", "values", "refused"),
    [
        ((-1.0, 1.0), [1 / 255, 3 / 255, 1.0], False),  # bytes scaled to -1..1 are odd multiples of 1/255
        ((-1.0, 1.0), [1 / 255, 2 / 255, 1.0], True),
        ((-128.0, 127.0), [0.0, 1.0, 127.0], False),
        ((-128.0, 127.0), [0.0, 1.0, 128.0], True),
        ((0.0, 65535.0), [0.0, 0.5, 1.0], True),
        ((0.0, 65535.0), [0.0, 1.0, 1.0], False),
        ((-1.0, 1.0), [-5.1, 0.0, 0.0], True),
        ((-1.0, 1.0), [-4.9, 4.9, 0.0], False),
    ],
)
def test_scales_that_a_single_image_shows(span: tuple[float, float], values: list[float], refused: bool) -> None:
    wanted, image = ANY_FLOATS.model_copy(update={"span": span}), torch.tensor([[[values]]])
    form = float_format((min(values), max(values)))
    with pytest.raises(DataError) if refused else contextlib.nullcontext():
        check_same_scale([image], form, wanted, stored=False)


def test_floats_that_hardly_vary_are_refused(tmp_path: Path) -> None:
    images, labels = digits_of((0, 1))
    classifier = tiny_model(tmp_path / "model")
    with pytest.raises(DataError, match=r"span only 0 to 1e-06; scale them to 0\.\.1"):
        classifier.learn(images / images.max() * 1e-6, labels)
    classifier.learn(images, labels)
    with pytest.raises(DataError, match=r"span only"):
        classifier.learn(digits_of((2,))[0] / 255 * 1e-30, [2] * 12)


def test_formats_of_floats_by_their_range() -> None:
    assert float_format((0, 1)) == float_format((-1e-4, 1.0005)) == float_format((0, 0)) == UNIT
    assert float_format((0, 2)) == float_format((0, 255)) == BYTE_FLOATS
    assert float_format((-1, 1)) == ANY_FLOATS.model_copy(update={"span": (-1, 1)})
    values = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    assert torch.equal(convert(convert(values, BYTES, UNIT), UNIT, BYTES), values)
    assert torch.equal(convert(convert(values, BYTES, BYTE_FLOATS), BYTE_FLOATS, BYTES), values)
    assert torch.equal(convert(values.float(), BYTE_FLOATS, UNIT), values.float() / 255)
    assert on_grid(values.float() / 255, UNIT)
    assert not on_grid(values.float() / 256, UNIT)
