"""Corrections and the page for learners of sums, on pixels and on features whose exemplars are files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from itaml.errors import DataError, SettingsError
from itaml.learners.statistics_learner import StatisticsLearner
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import Bytes, digits_of

KINDS: dict[str, dict[str, Any]] = {
    "pixels": {"method": "lda", "backbone": "pixels"},
    "features": {"method": "lda", "backbone": "efficientnet-lite0", "image_size": 32},
}


def images_of(labels: tuple[int, ...], *, limit: int = 8, skip: int = 0) -> tuple[Bytes, list[str]]:
    images, names = digits_of(labels, limit=limit, skip=skip)
    return images, [f"digit {label}" for label in names]


@pytest.fixture(scope="module", params=KINDS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    classifier = ImageClassifier.create(path, precision="fp32", memory=200, **KINDS[request.param])
    classifier.learn(*images_of((0, 1)))
    classifier.learn(*images_of((2, 3)))
    return path


@pytest.fixture
def model(original: Path, tmp_path: Path) -> ImageClassifier:
    shutil.copytree(original, tmp_path / "model")
    return ImageClassifier.open(tmp_path / "model", precision="fp32")


def labels(classifier: ImageClassifier) -> list[str | None]:
    images = images_of((0, 1, 2, 3), limit=4, skip=30)[0]
    return [max(found.top, key=lambda pair: pair[1])[0] for found in classifier.predict(images, top=9)]


def files(classifier: ImageClassifier) -> set[str]:
    return {file.name for file in classifier.path.rglob("*.webp")}


def test_a_class_goes_with_its_files(model: ImageClassifier) -> None:
    before, found = files(model), labels(model)
    model.forget("digit 2", purge=True)
    assert model.classes == ("digit 0", "digit 1", "digit 3")
    assert [task.exemplars + task.validation_images for task in model.tasks] == [16, 8]
    assert not before or len(before - files(model)) == 8
    assert model.verify() == []
    again = ImageClassifier.open(model.path, precision="fp32")
    assert labels(again) == labels(model)
    kept = [(old, new) for old, new in zip(found, labels(model), strict=True) if old != "digit 2"]
    assert sum(old == new for old, new in kept) >= len(kept) - 1  # the covariance has changed with the images
    again.learn(*images_of((2,)))
    assert again.classes == ("digit 0", "digit 1", "digit 3", "digit 2")


def test_merged_classes_have_the_images_of_both(model: ImageClassifier) -> None:
    model.merge("digit 3", "digit 0")
    assert model.classes == ("digit 0", "digit 1", "digit 2")
    assert model.tasks[0].exemplars + model.tasks[0].validation_images == 24
    found = [max(found.top, key=lambda pair: pair[1])[0] for found in model.predict(images_of((0, 3))[0], top=9)]
    assert found.count("digit 0") >= 15
    model.learn(*images_of((4,)))
    assert model.verify() == []
    assert model.rollback() == 3
    assert model.classes == ("digit 0", "digit 1", "digit 2")


def test_relabelled_images_are_learned_as_if_they_had_come_so(tmp_path: Path) -> None:
    images, names = images_of((0, 1))
    for kind, options in KINDS.items():
        model = ImageClassifier.create(tmp_path / kind, precision="fp32", memory=200, **options)
        model.learn(images, [*names[:-2], "digit 0", "digit 0"])
        model.relabel(images[-2:], to="digit 1")
        assert model.learn(images, names).changed is False
        core = model._model.core
        assert isinstance(core, StatisticsLearner)
        validation = {label: len(samples) for label, samples in model._model.validation_images.items()}
        assert core.statistics.counts.tolist() == [8 - validation.get(0, 0), 8 - validation.get(1, 0)]
        with pytest.raises(DataError, match="these are all images of class 'digit 0'"):
            model.relabel(images[:8], to="digit 1")


def test_the_page_leaves_exemplars_out(model: ImageClassifier, tmp_path: Path) -> None:
    images = images_of((0,), limit=1, skip=60)[0]
    model.learn(images, ["digit 1"])  # wrong on purpose
    model.write_page(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "exemplars as if they had not been learned" in text
    assert "kept as <strong>digit 1</strong>" in text
    assert text.count("kept as") <= 8  # most labels are right, and exemplars in compressed files are recognised


def test_a_method_that_cannot_forget_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = ImageClassifier.create(tmp_path / "m", method="ewc", epochs=1, precision="fp32")
    model.learn(*digits_of((0, 1)))
    model.learn(*digits_of((2,)))
    with pytest.raises(SettingsError, match="EWC cannot remove or merge classes"):
        model.forget("0")
    assert (model.version, len(model.classes), model.verify()) == (2, 3, [])
