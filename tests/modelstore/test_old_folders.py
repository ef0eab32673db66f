"""Model folders written by itaml 0.1.0 open, predict as they did, and are written in the present format by a learn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from itaml.modelstore.checksummed_json import FORMAT
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.predictions import ImagePrediction
from itaml.modelstore.repair import rollback, verify
from modelstore_support import digits_of

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = json.loads((FIXTURES / "expected-0.1.0.json").read_text())
RAW = load_digits()


def told(predictions: list[ImagePrediction]) -> list[list[object]]:
    return [[prediction.label, round(prediction.confidence, 3), prediction.task] for prediction in predictions]


def rounded(name: str) -> list[list[object]]:
    return [[label, round(confidence, 3), task] for label, confidence, task in EXPECTED[name]]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{row}.png") for row in EXPECTED["rows"]]
    for row, path in zip(EXPECTED["rows"], paths, strict=True):
        Image.fromarray((RAW.images[row] * 255 / 16).round().astype(np.uint8)).save(path)
    return paths


def test_a_folder_of_files_of_0_1_0_predicts_as_it_did(files: list[str]) -> None:
    assert told(ImageClassifier.open(FIXTURES / "files-0.1.0").predict(files)) == rounded("files")
    assert verify(FIXTURES / "files-0.1.0")[1] == []


def test_a_folder_of_floats_of_0_1_0_predicts_as_it_did_and_takes_bytes_too(files: list[str]) -> None:
    classifier = ImageClassifier.open(FIXTURES / "floats-0.1.0")
    images = (RAW.images[EXPECTED["rows"]] / 16).astype(np.float32)
    assert told(classifier.predict(images)) == rounded("floats")
    assert classifier.info()["pixels"] == {"dtype": "float32", "white": 1.0}
    as_bytes = classifier.predict((images * 255).round().astype(np.uint8))
    assert [prediction.label for prediction in as_bytes] == [label for label, *_ in EXPECTED["floats"]]
    assert [prediction.label for prediction in classifier.predict(files)] == [label for label, *_ in EXPECTED["floats"]]


def test_a_learn_writes_an_old_folder_in_the_present_format(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "files-0.1.0", tmp_path / "model")
    classifier = ImageClassifier.open(tmp_path / "model")
    before = classifier.info()
    assert before["version"] == 3
    assert before["learns"][0]["images"] == {"digit 0": 11, "digit 1": 11}
    images, _ = digits_of((3,))
    classifier.learn(np.repeat(images[..., None], 3, axis=3), ["digit 3"] * len(images), epochs=2)
    record = json.loads((tmp_path / "model" / "versions" / "000004" / "model.json").read_text())
    assert (record["format"], record["version"]) == (FORMAT, 4)
    assert record["pixels"] == {"dtype": "uint8", "white": 255.0, "span": None}
    assert ImageClassifier.open(tmp_path / "model").classes == (*before["classes"], "digit 3")
    assert verify(tmp_path / "model")[1] == []
    assert rollback(tmp_path / "model") == (4, 3)
    assert ImageClassifier.open(tmp_path / "model").classes == tuple(before["classes"])


def test_images_that_an_old_folder_keeps_are_recognised(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "files-0.1.0", tmp_path / "model")
    for row in np.flatnonzero(RAW.target == 2)[:12]:
        folder = tmp_path / "again" / "digit 2"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((RAW.images[row] * 255 / 16).round().astype(np.uint8)).save(folder / f"renamed {row}.png")
    classifier = ImageClassifier.open(tmp_path / "model")
    kept = classifier.tasks[1]
    record = classifier.learn(tmp_path / "again", epochs=1).record
    assert record.duplicates == kept.exemplars + kept.validation_images
