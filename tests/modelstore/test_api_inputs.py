"""What Python code may give: the same image in every form has the same prediction, and what is no image is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from itaml.errors import DataError, SettingsError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.input_parsing import parse_inputs
from itaml.modelstore.labelled_inputs import inputs_with_labels
from itaml.modelstore.labels import as_names
from modelstore_support import Bytes, digits_of, tiny_model


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> ImageClassifier:
    """Return a model of colour images of 8 x 8 pixels."""
    made = tiny_model(tmp_path_factory.mktemp("api") / "model", epochs=20, image_size=8)
    images, labels = digits_of((0, 1, 2))
    made.learn(colour(images), labels)
    return made


def colour(images: Bytes) -> Bytes:
    return np.repeat(images[..., None], 3, axis=3)


def big(seed: int = 0, *, height: int = 30, width: int = 40) -> Bytes:
    """Return an image (height, width, 3) that no model here keeps as it is."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


FORMS: dict[str, Callable[[Bytes, Path], Any]] = {
    "path": lambda image, path: path,
    "text": lambda image, path: str(path),
    "list of paths": lambda image, path: [path],
    "folder": lambda image, path: path.parent,
    "PIL": lambda image, path: Image.fromarray(image),
    "list of PIL": lambda image, path: [Image.fromarray(image)],
    "array": lambda image, path: image[None],
    "list of arrays": lambda image, path: [image],
    "tuple": lambda image, path: (image,),
    "ragged array": lambda image, path: _ragged([image]),
    "array of text": lambda image, path: np.array([str(path)]),
    "tensor": lambda image, path: torch.from_numpy(image).permute(2, 0, 1)[None],
    "list of tensors": lambda image, path: [torch.from_numpy(image).permute(2, 0, 1)],
    "floats": lambda image, path: image[None] / 255,
    "big-endian floats": lambda image, path: (image[None] / 255).astype(">f8"),
    "half": lambda image, path: [image.astype(np.float16)],
    "long doubles": lambda image, path: image[None].astype(np.longdouble),
    "big-endian integers": lambda image, path: image[None].astype(">i4"),
    "int64 tensor": lambda image, path: torch.from_numpy(image).permute(2, 0, 1)[None].long(),
    "generator": lambda image, path: (item for item in [image]),
}


def _ragged(images: list[Bytes]) -> Any:
    array = np.empty(len(images), dtype=object)
    array[:] = images
    return array


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_image_of_any_size_is_predicted_like_its_file(
    classifier: ImageClassifier, tmp_path: Path, form: str
) -> None:
    image, path = big(), tmp_path / "one.png"
    Image.fromarray(image).save(path)
    expected = classifier.predict(path)[0]
    found = classifier.predict(FORMS[form](image, path))
    assert len(found) == 1
    assert found[0].label == expected.label
    assert found[0].confidence == pytest.approx(expected.confidence, abs=5e-3)  # floats are not rounded


def test_sizes_and_forms_may_be_mixed_in_a_list(classifier: ImageClassifier, tmp_path: Path) -> None:
    Image.fromarray(big(1)).save(tmp_path / "one.png")
    mixed = [big(0), tmp_path / "one.png", Image.fromarray(big(2, height=9)), torch.from_numpy(big(3)[..., 0])]
    alone = [classifier.predict([image])[0] for image in mixed]
    found = classifier.predict(mixed)
    assert [prediction.confidence for prediction in found] == pytest.approx(
        [prediction.confidence for prediction in alone], abs=1e-6
    )
    assert [prediction.file for prediction in found] == [None, str(tmp_path / "one.png"), None, None]


def test_floats_beside_files_do_not_change_how_files_are_seen(classifier: ImageClassifier, tmp_path: Path) -> None:
    """Floats that are no multiples of 1/255 once turned uint8 pixels beside them into floats up to 255."""
    Image.fromarray(big(1)).save(tmp_path / "one.png")
    between = big(0) / 255 * 0.93
    found = classifier.predict([between, tmp_path / "one.png"])
    assert found[1].confidence == pytest.approx(classifier.predict(tmp_path / "one.png")[0].confidence, abs=1e-6)
    assert found[0].confidence == pytest.approx(classifier.predict([between])[0].confidence, abs=1e-6)


def test_paths_folders_and_arrays_are_learned_with_labels(tmp_path: Path) -> None:
    images, _ = digits_of((0, 1, 2), limit=6)
    (tmp_path / "zeros").mkdir()
    for number in range(6):
        Image.fromarray(images[number]).save(tmp_path / "zeros" / f"{number}.png")
    Image.fromarray(images[6]).save(tmp_path / "one.png")
    classifier = tiny_model(tmp_path / "model")
    given = [
        tmp_path / "zeros",
        tmp_path / "one.png",
        *images[7:12],
        *(Image.fromarray(image) for image in images[12:]),
    ]
    record = classifier.learn(given, ["zero"] + ["one"] * 6 + ["two"] * 6).record
    total = sum(record.images.values()) + record.validation_images
    assert (record.new, total) == (("one", "two", "zero"), 18)
    assert classifier.info()["shape"] == (3, 8, 8)


def test_large_arrays_become_a_model_of_the_size_that_files_get(tmp_path: Path) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(np.stack([big(seed, height=70, width=90) for seed in range(8)]), [0, 1] * 4)
    assert classifier.info()["shape"] == (3, 64, 64)
    small = tiny_model(tmp_path / "small", image_size=8)
    small.learn(np.stack([big(seed)[..., 0] for seed in range(8)]), [0, 1] * 4)
    assert small.info()["shape"] == (1, 8, 8)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((2, 0, 0)), "an image of 0 x 0 pixels"),
        ([np.zeros((0, 5))], "an image of 5 x 0 pixels"),
        (np.array([["a", "b"]]), "an image in a list is a path"),
        (np.array([b"a"]), "pixels are whole numbers"),
        (np.zeros((2, 8, 8), dtype=complex), "pixels are whole numbers from 0 to 255 or floats, not complex128"),
        (np.zeros((2, 8, 8), dtype=bool), "not bool"),
        (np.full((2, 8, 8), 300), "whole numbers as pixels are from 0 to 255, but these go from 300 to 300"),
        (np.full((2, 8, 8), -1), "go from -1 to -1"),
        (np.full((1, 8, 8), np.nan), "NaN or infinity"),
        (np.full((1, 8, 8), 1e300), "NaN or infinity"),
        (np.zeros((2, 8, 8, 4)), "images have 1 or 3 channels"),
        (np.zeros((2, 3, 8, 8)), "images have 1 or 3 channels"),
        (np.zeros((8, 8, 3)), "may be one image or many; give one image in a list"),
        (torch.zeros(3, 8, 8), "may be one image or many; give one image in a list"),
        (np.zeros((8,)), "1 or 3 channels"),
        (np.zeros(()), "1 or 3 channels"),
        ([None], "an image in a list is"),
        ([object()], "an image in a list is"),
        ([[1, [2]]], "an image in a list is"),
        (7, "images are paths, PIL images, arrays or tensors, not int"),
        ([torch.zeros(2, 2, 2, 2)], "an image in a list is"),
        (None, "images are paths, PIL images, arrays or tensors, not NoneType"),
        ({"a.png": 1}, "not dict"),
        ({"a.png"}, "not set"),
        (memoryview(b"abc"), "not memoryview"),
        (np.ma.masked_array(np.zeros((2, 8, 8)), mask=True), "an array with a mask"),
        ([np.ma.masked_array(np.zeros((8, 8)), mask=True)], "an array with a mask"),
        (torch.empty(2, 1, 8, 8, device="meta"), "a tensor of images is dense"),
        (torch.zeros(2, 1, 8, 8).to_sparse(), "a tensor of images is dense"),
        ([torch.zeros(1, 8, 8).to_sparse()], "a tensor of images is dense"),
    ],
)
def test_what_is_no_image_is_refused_with_a_sentence(images: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parse_inputs(images)
    with pytest.raises(DataError, match=sentence):
        inputs_with_labels(images, ["a", "b"])


def test_no_images_have_no_predictions(classifier: ImageClassifier) -> None:
    assert classifier.predict([]) == []
    assert classifier.predict(np.zeros((0, 8, 8))) == []


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([None, "a"], "label 0 is None"),
        (["a", float("nan")], "label 1 is nan"),
        (np.array([1.0, np.nan]), "label 1 is"),
        (np.zeros((2, 2)), "2 dimensions"),
        ([["a"], ["b"]], r"label 0 is \['a'\]"),
        ("ab", "not a single text 'ab'"),
        ([1, "1"], "the labels 1 and '1' would be one class"),
        ([b"a"], "label 0 is b'a'"),
        (5, "labels are a sequence"),
        ({0: "a", 1: "b"}, "labels are a sequence, one for each image, not dict"),
        ({"a", "b"}, "not set"),
        ([1, 10**5000], "label 1 is a number of too many digits"),
    ],
)
def test_what_is_no_label_is_refused_with_a_sentence(labels: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        as_names(labels)


def test_labels_become_names() -> None:
    assert as_names(["a", "b"]) == ["a", "b"]
    assert as_names(np.array(["a", "b"])) == ["a", "b"]
    assert as_names([1, np.int64(2)]) == as_names(torch.tensor([1, 2])) == as_names(np.array([1, 2])) == ["1", "2"]
    assert as_names([True, False]) == ["True", "False"]
    assert as_names(name for name in "ab") == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["a", "a\0"], "has a null character"),
        (["a", "unknown"], "a class cannot be called 'unknown'"),
        (["a", "Unknown"], "a class cannot be called 'Unknown'"),
        (["a"], "2 images but 1 label; give one label for each image"),
        ([], "2 images but 0 labels"),
    ],
)
def test_labels_that_cannot_be_classes_are_refused(tmp_path: Path, labels: list[str], sentence: str) -> None:
    classifier = tiny_model(tmp_path / "model")
    with pytest.raises(DataError, match=sentence):
        classifier.learn(digits_of((0, 1), limit=1)[0], labels)
    assert classifier.classes == ()


def test_an_unknown_image_is_told_from_a_class(classifier: ImageClassifier) -> None:
    known, unknown = classifier.predict([big()])[0], classifier.predict([big()], unknown=1.0)[0]
    assert (known.known, unknown.known, unknown.label) == (True, False, "unknown")
    assert unknown.to_json()["known"] is False
    missing = classifier.predict(["missing.png"])[0]
    assert (missing.known, missing.label, missing.error) == (False, None, "no such file or directory")


@pytest.mark.parametrize("epochs", [0, -1, True, 1.5, "3"])
def test_impossible_epochs_are_refused(classifier: ImageClassifier, epochs: Any) -> None:
    with pytest.raises(SettingsError, match=r"epochs must be a whole number of at least 1, not"):
        classifier.learn(*digits_of((3,), limit=2), epochs=epochs)


@pytest.mark.parametrize(
    "option",
    [
        {"mean_run": 0},
        {"mean_run": float("nan")},
        {"mean_run": float("inf")},
        {"mean_run": True},
        {"top": True},
        {"top": 1.5},
        {"top": 0},
        {"unknown": float("nan")},
        {"unknown": 2},
        {"unknown": "0.5"},
    ],
)
def test_impossible_options_of_predict_are_refused(classifier: ImageClassifier, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(SettingsError, match=f"{name} must be a"):
        classifier.predict([big()], group="stream", **option)


@pytest.mark.parametrize(
    "option", [{"memory": True}, {"memory": 0}, {"epochs": 0}, {"epochs": False}, {"image_size": True}]
)
def test_impossible_options_of_a_new_model_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(SettingsError, match=f"option {name}"):
        ImageClassifier.create(tmp_path / "model", **option)
    assert not (tmp_path / "model").exists()
