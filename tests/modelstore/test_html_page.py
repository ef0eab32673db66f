"""The page of a model: what it says is what the model predicts, and it loads nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from itaml.errors import DataError, ItamlError
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.review import Predicted, Review
from itaml.modelstore.stored_pixels import StoredPixels
from modelstore_support import Ran, digits_of, tiny_model


def pixels(labels: list[int]) -> StoredPixels:
    return StoredPixels(torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), torch.tensor(labels))


def most_probable(probabilities: list[list[float]]) -> Predicted:
    found = torch.tensor(probabilities)
    return Predicted(found.argmax(1), found)


REVIEW = Review(
    pixels([0, 0, 1, 2]),
    most_probable([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 1.0, 0.0], [0.55, 0.0, 0.45]]),
    pixels([1, 2]),
    most_probable([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]]),
    left_out=False,
)


def test_a_review_by_hand() -> None:
    assert REVIEW.confusion().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert [(m.label, m.predicted) for m in REVIEW.mistakes(5)] == [(0, 1), (2, 0)]
    assert [round(m.confidence, 2) for m in REVIEW.mistakes(1)] == [0.8]
    assert [(s.label, s.predicted) for s in REVIEW.suspects(5)] == [(0, 1), (1, 0), (2, 0)]  # by .6, .4 and .1
    first, second = REVIEW.alike(5)
    assert (first[:2], second[:2]) == ((0, 1), (0, 2))
    assert (first[2], second[2]) == pytest.approx(((0.45 + 0.35) / 2, (0 + 0.275) / 2))


def test_the_class_of_the_best_task_counts_although_another_is_more_probable() -> None:
    said = Predicted(torch.tensor([1]), torch.tensor([[0.4, 0.35, 0.25]]))  # classes 1 and 2 are one task
    found = Review(pixels([0]), said, pixels([1]), most_probable([[0.1, 0.9, 0.0]]), left_out=False)
    assert found.confusion().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert [(m.predicted, round(m.confidence, 2)) for m in found.mistakes(5)] == [(1, 0.35)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ImageClassifier:
    classifier = tiny_model(tmp_path_factory.mktemp("models") / "numbers", epochs=2, memory=100)
    for digits in ((0, 1), (2, 3)):
        images, labels = digits_of(digits)
        classifier.learn(images, ["<b>&zero" if label == 0 else str(label) for label in labels])
    return classifier


def test_the_page_loads_nothing_and_escapes_names(model: ImageClassifier, tmp_path: Path) -> None:
    model.write_page(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;zero" in text
    assert "<b>" not in text
    assert "<script" not in text
    assert {uri[:22] for uri in re.findall(r'src="([^"]*)"', text)} == {"data:image/webp;base64"}
    assert not re.findall(r"(?:src|href)=.(?:http|//)", text)
    assert "default-src &#39;none&#39;" in text
    assert "prefers-color-scheme:dark" in text
    assert text.count("<tr><th>") == 1 + 2 + 4 + 1  # heads, learns and classes


def test_the_page_shows_what_is_predicted(itaml: Callable[..., Ran], model: ImageClassifier, tmp_path: Path) -> None:
    ran = itaml("info", model.path, "--html", tmp_path / "page.html")
    assert f"the page is {tmp_path / 'page.html'}" in ran.out
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    after = [record["after"] for record in model.info()["learns"][-1]["tasks"]]
    assert "<h1>numbers</h1>" in text
    assert "Version 2 knows 4 classes in 2 tasks and keeps" in text
    assert f"<strong>{100 * sum(after) / len(after):.1f} %</strong>" in text  # both tasks have as many images


def test_an_empty_model_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has not learned anything yet"):
        tiny_model(tmp_path / "m").write_page(tmp_path / "page.html")


def test_a_page_that_cannot_be_written_is_an_error(model: ImageClassifier) -> None:
    with pytest.raises(ItamlError, match="cannot write the page"):
        model.write_page(Path(__file__) / "page.html")
