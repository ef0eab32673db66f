"""Images that come again: a duplicate is not stored again, and the newer of two labels counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from itaml.modelstore.duplicates import compare, exemplars_of
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.image_reading import digests_of
from modelstore_support import digits_of, tiny_model


def stored(classifier: ImageClassifier) -> dict[str, int]:
    """Return how many copies of each image the model keeps, exemplars and validation images together."""
    counts: dict[str, int] = {}
    memory = classifier._model.memory
    assert memory is not None
    places = (exemplars_of(memory), classifier._model.validation_images)
    for place in places:
        for label, pixels in place.items():
            for digest in digests_of(pixels):
                key = f"{classifier.classes[label]} {digest.hex()}"
                counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.fixture
def classifier(tmp_path: Path) -> ImageClassifier:
    made = tiny_model(tmp_path / "model")
    made.learn(*digits_of((0, 1)))
    return made


def test_learning_the_same_images_twice_stores_them_once(classifier: ImageClassifier) -> None:
    before = stored(classifier)
    assert len(before) == 24
    report = classifier.learn(*digits_of((0, 1)))
    assert not report.changed
    assert report.record.duplicates == 24
    assert "24 images known already, not stored again" in report.notes
    assert classifier.version == 1
    assert stored(ImageClassifier.open(classifier.path)) == before


def test_new_images_among_known_ones_are_learned(classifier: ImageClassifier) -> None:
    report = classifier.learn(*digits_of((0, 1), limit=15))
    assert (report.changed, report.record.duplicates) == (True, 24)
    assert sum(report.record.images.values()) + report.record.validation_images == 6
    assert len(stored(classifier)) == 30
    assert set(stored(classifier).values()) == {1}


def test_an_image_that_comes_twice_in_one_learn_is_learned_once(tmp_path: Path) -> None:
    images, labels = digits_of((0, 1))
    classifier = tiny_model(tmp_path / "model")
    report = classifier.learn(np.concatenate([images, images[:3]]), labels + labels[:3])
    assert report.record.duplicates == 3
    assert len(stored(classifier)) == 24


def test_relearning_an_image_under_another_class_moves_it(classifier: ImageClassifier) -> None:
    images, labels = digits_of((0, 1))
    wrong = images[labels.index(1) :][:4]
    report = classifier.learn(wrong, ["seven"] * 4)
    assert report.record.moved == 4
    assert "4 images moved from another class: the newer label counts" in report.notes
    digests = {digest.hex() for digest in digests_of(torch.from_numpy(wrong)[:, None])}
    assert {key.split()[0] for key in stored(classifier) if key.split()[1] in digests} == {"seven"}
    assert len(stored(classifier)) == 24
    assert len(stored(ImageClassifier.open(classifier.path))) == 24


def test_moving_every_image_of_a_class_leaves_it_without_images(classifier: ImageClassifier) -> None:
    images, labels = digits_of((1,))
    report = classifier.learn(images, ["one"] * len(labels), epochs=40)
    assert report.record.moved == 12
    assert "class '1' has no images left, because all were moved" in report.notes
    assert classifier.classes == ("0", "1", "one")
    assert [prediction.label for prediction in classifier.predict(images)].count("1") == 0
    assert classifier.learn(*digits_of((2,))).record.new == ("2",)  # life goes on


def test_a_validation_image_is_found_under_its_class(classifier: ImageClassifier) -> None:
    validation_images = classifier._model.validation_images[0]
    report = classifier.learn(validation_images[:, 0].numpy(), ["0"] * len(validation_images))
    assert report.record.duplicates == len(validation_images)


@pytest.mark.parametrize(
    ("given", "new", "duplicates", "moved", "conflicts", "stale"),
    [
        ([("a", 0), ("b", 1)], [0, 1], 0, 0, 0, set()),
        ([("x", 0), ("b", 1)], [1], 1, 0, 0, set()),  # x is stored under 0
        ([("x", 1)], [0], 0, 1, 0, {(0, b"x")}),
        ([("x", 0), ("x", 1)], [1], 1, 0, 1, set()),  # both are told at once: nothing says which is newer
        ([("a", 0), ("a", 0), ("a", 2)], [0, 2], 1, 0, 1, set()),
        (
            [("y", 2)],
            [0],
            0,
            1,
            0,
            {(1, b"y"), (2, b"y")},
        ),  # y is stored under 1 and 2
    ],
)
def test_what_is_known_of_arriving_images(
    given: list[tuple[str, int]],
    new: list[int],
    duplicates: int,
    moved: int,
    conflicts: int,
    stale: set[tuple[int, bytes]],
) -> None:
    known = compare([d.encode() for d, _ in given], [label for _, label in given], {b"x": {0}, b"y": {1, 2}})
    assert known.new.tolist() == new
    assert (known.duplicates, known.moved, known.conflicts) == (duplicates, moved, conflicts)
    assert known.stale == stale
