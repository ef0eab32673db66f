"""Which images to label next."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from itaml.errors import SettingsError
from itaml.modelstore.predictions import ImagePrediction
from itaml.modelstore.uncertainty import rank_uncertain, uncertainty
from modelstore_support import Ran, digits_of, tiny_model


def test_uncertainty_by_hand() -> None:
    assert uncertainty([0.25] * 4) == pytest.approx(1)
    assert uncertainty([0.5, 0.5, 0, 0]) == pytest.approx(0.5)
    assert uncertainty([0.9, 0.1]) == pytest.approx(-(0.9 * math.log2(0.9) + 0.1 * math.log2(0.1)))
    assert uncertainty([0.0, 0.0]) == 0


def test_ties_are_in_the_order_of_file_names_and_unreadable_images_last() -> None:
    def predicted(file: str, *shares: float) -> ImagePrediction:
        top = tuple((str(number), share) for number, share in enumerate(shares))
        return ImagePrediction(file, "0", shares[0], 0, 0, top)

    broken = ImagePrediction("a", None, 0.0, None, None, error="cannot be read", known=False)
    given = [broken, predicted("d", 0.9, 0.1), predicted("c", 0.6, 0.4), predicted("b", 0.4, 0.6)]
    assert [prediction.file for prediction in rank_uncertain(given)] == ["b", "c", "d", "a"]


def test_an_image_between_two_classes_comes_first(itaml: Callable[..., Ran], tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", epochs=30)
    images, labels = digits_of((0, 1), limit=30)
    model.learn(images, labels)
    between = (images[0] // 2 + images[40] // 2).astype("uint8")
    names = ["zero.png", "one.png", "between.png"]
    for name, image in zip(names, (images[0], images[40], between), strict=True):
        Image.fromarray(image).save(tmp_path / name)
    files = [str(tmp_path / name) for name in names]
    ranked = model.predict(files, rank="uncertain")
    assert ranked[0].file == files[2]
    assert [len(prediction.top) for prediction in ranked] == [1, 1, 1]
    assert sorted(ranked, key=str) == sorted(model.predict(files), key=str)
    ran = itaml("predict", model.path, *files, "--rank", "uncertain", "--format", "csv")
    assert ran.out.splitlines()[1].startswith(files[2])
    assert "error: --rank takes uncertain, not 'best'" in itaml("predict", model.path, *files, "--rank", "best").err
    with pytest.raises(SettingsError, match="rank must be uncertain, not 'best'"):
        model.predict(files, rank="best")  # type: ignore[arg-type]
