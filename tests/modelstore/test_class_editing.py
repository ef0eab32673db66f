"""Corrections of a model: each is a version, leaves the other classes as they were, and can be undone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from PIL import Image

from itaml.errors import DataError, UnknownNameError, UsageError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.model_folder import ModelFolder
from modelstore_support import Ran, digits_of, tiny_model

Itaml = Callable[..., Ran]
UNSEEN = digits_of((0, 1, 2, 3, 4), limit=5, skip=40)[0]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    classifier = tiny_model(path, epochs=8, memory=100)
    for digits in ((0, 1), (2, 3), (4,)):
        images, labels = digits_of(digits)
        classifier.learn(images, [f"digit {label}" for label in labels])
    return path


@pytest.fixture
def model(original: Path, tmp_path: Path) -> ImageClassifier:
    shutil.copytree(original, tmp_path / "model")
    return ImageClassifier.open(tmp_path / "model", precision="fp32")


def probabilities(classifier: ImageClassifier) -> list[dict[str, float]]:
    return [dict(found.top) for found in classifier.predict(UNSEEN, top=len(classifier.classes))]


def names_in(folder: Path) -> list[str]:
    """Return the files below a folder that hold the word `digit 4`."""
    files = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return [file.name for file in files if b"digit 4" in file.read_bytes()]


def test_a_class_is_forgotten_and_the_others_keep_their_predictions(model: ImageClassifier) -> None:
    before = model.predict(UNSEEN[:20], top=5)
    report = model.forget("digit 4")
    assert (report.version, report.known) == (4, ("digit 0", "digit 1", "digit 2", "digit 3"))
    assert [task.classes for task in model.tasks] == [("digit 0", "digit 1"), ("digit 2", "digit 3")]
    after = model.predict(UNSEEN[:20], top=5)
    for old, new in zip(before, after, strict=True):
        if old.label != "digit 4":
            assert new.label == old.label
    assert model.verify() == []
    again = ImageClassifier.open(model.path, precision="fp32")
    assert probabilities(again) == probabilities(model)
    assert model.rollback() == 3
    assert model.predict(UNSEEN[:20], top=5) == before


def test_ids_move_up_so_that_learning_goes_on(model: ImageClassifier) -> None:
    model.forget("digit 0", "digit 2")
    assert list(model.classes) == ["digit 1", "digit 3", "digit 4"]
    images, labels = digits_of((5, 0))
    model.learn(images, [f"digit {label}" for label in labels])
    assert list(model.classes) == ["digit 1", "digit 3", "digit 4", "digit 0", "digit 5"]
    assert [task.images for task in model.tasks] == [11, 11, 11, 22]  # one in twelve is for validation
    found = model.predict(digits_of((1, 3, 4), limit=12)[0])
    right = [prediction.label == f"digit {(1, 3, 4)[row // 12]}" for row, prediction in enumerate(found)]
    assert sum(right) > 28


def test_forgetting_every_class_leaves_an_empty_model(model: ImageClassifier) -> None:
    model.forget(*model.classes)
    assert (model.version, model.classes, model.tasks) == (4, (), ())
    again = ImageClassifier.open(model.path)
    with pytest.raises(DataError, match="has not learned anything yet"):
        again.predict(UNSEEN)
    assert again.rollback() == 3


def test_purged_classes_are_in_no_file(model: ImageClassifier) -> None:
    assert names_in(model.path)
    report = model.forget("digit 4", purge=True)
    assert names_in(model.path) == []
    assert report.known == ("digit 0", "digit 1", "digit 2", "digit 3")
    assert model.verify() == []
    assert ModelFolder(model.path).numbers() == [3, 4]
    assert model.rollback() == 3
    assert model.classes == ("digit 0", "digit 1", "digit 2", "digit 3")


def test_a_version_that_has_the_class_under_another_name_goes_with_it(model: ImageClassifier) -> None:
    model.rename("digit 4", "four")
    with pytest.raises(UnknownNameError, match="no class 'digit 4'"):
        model.forget("digit 4", purge=True)
    model.forget("four", purge=True)
    assert names_in(model.path) == []
    assert ModelFolder(model.path).numbers() == [5]
    with pytest.raises(UsageError, match="no earlier version"):
        model.rollback()


def test_a_purge_finds_a_class_that_only_the_version_before_has(model: ImageClassifier) -> None:
    model.forget("digit 4")
    assert names_in(model.path)
    model.forget("digit 4", purge=True)
    assert names_in(model.path) == []
    with pytest.raises(UnknownNameError, match="no class 'digit 4'"):
        model.forget("digit 4", purge=True)


def test_a_purge_can_leave_an_empty_version_behind(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m")
    model.learn(*digits_of((0, 1)))
    model.learn(*digits_of((2,)))
    model.forget("0", "1", purge=True)
    assert list(model.classes) == ["2"]
    assert model.rollback() == 2
    assert list(model.classes) == []


def test_a_new_name_changes_nothing_else(model: ImageClassifier) -> None:
    before = probabilities(model)
    model.rename("digit 1", "one")
    assert model.classes == ("digit 0", "one", "digit 2", "digit 3", "digit 4")
    assert probabilities(model) == [{k.replace("digit 1", "one"): v for k, v in row.items()} for row in before]
    assert model.tasks[0].images == 22
    with pytest.raises(DataError, match="there is a class 'digit 0' already"):
        model.rename("one", "digit 0")
    with pytest.raises(DataError, match="cannot be called 'unknown'"):
        model.rename("one", "unknown")
    with pytest.raises(DataError, match="differs from it only in case"):
        model.rename("one", "Digit 0")


def test_merged_classes_are_one(model: ImageClassifier) -> None:
    model.merge("digit 1", "digit 3")
    assert model.classes == ("digit 0", "digit 2", "digit 3", "digit 4")
    assert [task.classes for task in model.tasks] == [("digit 0",), ("digit 2", "digit 3"), ("digit 4",)]
    assert model.tasks[1].images == 33
    found = [found.label for found in model.predict(digits_of((1, 3))[0])]
    assert found.count("digit 3") >= 20
    assert model.verify() == []
    with pytest.raises(DataError, match="cannot be merged with itself"):
        model.merge("digit 3", "digit 3")


def test_relabelled_images_are_kept_under_their_new_class(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", epochs=8, memory=100)
    images, labels = digits_of((0, 1))
    wrong = [str(label) for label in labels[:-2]] + ["0", "0"]  # two ones under 0
    model.learn(images, wrong)
    before = model.tasks[0]
    report = model.relabel(images[-2:], to="1")
    assert report.classes == ("0", "1")
    assert (model.tasks[0].exemplars, model.tasks[0].classes) == (before.exemplars, ("0", "1"))
    assert model.learn(images, [str(label) for label in labels]).record.moved == 0
    with pytest.raises(DataError, match="all these images are of class '1' already"):
        model.relabel(images[-2:], to="1")
    with pytest.raises(DataError, match="5 of 5 images cannot be moved: the model does not keep them"):
        model.relabel(UNSEEN[:5], to="1")
    with pytest.raises(DataError, match="these are all images of class '0'"):
        model.relabel(images[:12], to="1")


def test_an_unknown_class_is_answered_with_the_nearest(model: ImageClassifier) -> None:
    edits: tuple[Callable[[], object], ...] = (
        lambda: model.forget("digit4"),
        lambda: model.rename("digit4", "x"),
        lambda: model.merge("digit 1", "digit4"),
        lambda: model.relabel(UNSEEN, to="digit4"),
    )
    for edit in edits:
        with pytest.raises(UnknownNameError, match="no class 'digit4'; did you mean 'digit 4'"):
            edit()
    with pytest.raises(UsageError, match="name the classes"):
        model.forget()
    assert model.version == 3


@pytest.mark.parametrize(
    "words", [("forget", "digit4"), ("merge", "digit4", "digit 1"), ("merge", "digit 1", "digit4")]
)
def test_a_class_that_is_not_known_is_an_error_before_anything_is_asked(
    itaml: Itaml, model: ImageClassifier, words: tuple[str, ...]
) -> None:
    ran = itaml(words[0], model.path, *words[1:])
    assert (ran.code, ran.err) == (2, "error: no class 'digit4'; did you mean 'digit 4'?\n")


def test_the_commands(itaml: Itaml, model: ImageClassifier, tmp_path: Path) -> None:
    path = model.path
    ran = itaml("forget", path, "digit 4")
    assert ran.code == 2
    assert "would forget digit 4; itaml rollback undoes it; add --yes if that is meant" in ran.err
    assert (
        itaml("forget", path, "digit 4", "--yes").out == f"forgot digit 4; {path} is at version 4 and knows 4 classes\n"
    )
    assert "class digit 3 is called three now" in itaml("rename", path, "digit 3", "three").out
    told = json.loads(itaml("merge", path, "digit 2", "three", "-y", "--json").out)
    assert (told["action"], told["classes"], told["version"]) == ("merge", ["digit 2", "three"], 6)
    assert told["known"] == ["digit 0", "digit 1", "three"]
    Image.fromarray(digits_of((0,))[0][4]).save(tmp_path / "0.png")
    ran = itaml("relabel", path, tmp_path / "0.png", "--to", "digit 1")
    assert ran.out == f"1 image moved from digit 0 to digit 1; {path} is at version 7 and knows 3 classes\n"
    ran = itaml("forget", path, "digit 7", "--yes")
    assert (ran.code, "error: no class 'digit 7'; did you mean 'digit 1'?" in ran.err) == (2, True)
    assert [edit["action"] for edit in json.loads(itaml("info", path, "--json").out)["edits"]] == [
        "forget",
        "rename",
        "merge",
        "relabel",
    ]


def test_a_terminal_is_asked(itaml: Itaml, model: ImageClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda text, abort: asked.append(f"{text} {abort}"))
    assert itaml("forget", model.path, "digit 4", "--purge").code == 0
    assert asked == [f"{model.path} would forget digit 4; this cannot be undone. Go on? True"]
