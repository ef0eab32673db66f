"""The table of `itaml predict`."""

from __future__ import annotations

import pytest

from itaml.cli.prediction_output import print_predictions
from itaml.modelstore.predictions import ImagePrediction

RANKED = (("cat", 0.9), ("dog", 0.1))


def _predictions(top: int) -> list[ImagePrediction]:
    known = ImagePrediction("a.jpg", "cat", 0.9, 0, 0, RANKED[:top])
    return [known, ImagePrediction("b.jpg", "unknown", 0.9, 0, 1, RANKED[:top], known=False)]


def _rows(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_an_unknown_image_has_neither_the_confidence_nor_the_task_of_a_class(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_predictions(_predictions(1), top=1)
    head, cat, strange = _rows(capsys)
    assert head == ["file", "class", "confidence", "task"]
    assert (cat[1:], strange[1:]) == (["cat", "0.900", "1"], ["unknown", "-", "-"])


def test_top_shows_what_an_unknown_image_is_most_like(capsys: pytest.CaptureFixture[str]) -> None:
    print_predictions(_predictions(2), top=2)
    _, cat, strange = _rows(capsys)
    assert cat[1:] == ["cat", "0.900", "1", "dog", "0.100"]
    assert strange[1:] == ["unknown", "-", "-", "cat", "0.900,", "dog", "0.100"]
