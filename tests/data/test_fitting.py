"""Images become squares in the way that a backbone was trained on: its interpolation and its share of the centre."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from backbone_support import write_backbone
from itaml.data.decoding import decode
from itaml.data.fitting import METHODS, PLAIN, Fitting, Interpolation
from itaml.modelstore.image_classifier import ImageClassifier


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("method", list(METHODS))
def test_resize_and_centre_crop_as_evaluation_transforms_do(method: Interpolation, tmp_path: Path) -> None:
    image = noise(80, 64)
    image.save(tmp_path / "image.png")
    # resizing the shorter side to 32 / 0.5 = 64 pixels changes nothing, and the centre 32 x 32 of it is what is kept
    expected = np.asarray(image.crop((24, 16, 56, 48)))
    found = decode(str(tmp_path / "image.png"), size=32, fitting=Fitting(method, crop=0.5))
    assert np.array_equal(found, expected)


def test_interpolation_is_honoured(tmp_path: Path) -> None:
    image = noise(40, 40)
    image.save(tmp_path / "image.png")
    for method, resampling in METHODS.items():
        found = decode(str(tmp_path / "image.png"), size=16, fitting=Fitting(method))
        assert np.array_equal(found, np.asarray(image.resize((16, 16), resampling))), method


@pytest.mark.parametrize("size", [(90, 33), (33, 90), (40, 40)])
def test_rows_are_scaled_before_columns_whatever_pillow_does(size: tuple[int, int]) -> None:
    image, side, method = noise(*size), min(size), Image.Resampling.BILINEAR
    left, top = (size[0] - side) / 2, (size[1] - side) / 2
    rows = image.resize((16, size[1]), method, box=(left, 0, left + side, size[1]))
    expected = np.asarray(rows.resize((16, 16), method, box=(0, top, 16, top + side)))
    assert np.array_equal(np.asarray(PLAIN.resample(image, (16, 16))), expected)
    on_its_side = PLAIN.resample(image.transpose(Image.Transpose.ROTATE_90), (16, 16), turned=True)
    assert np.array_equal(np.asarray(on_its_side.transpose(Image.Transpose.ROTATE_270)), expected)


@pytest.mark.parametrize("size", [(4, 250_000), (250_000, 4)])
def test_of_a_very_long_image_only_the_centre_is_scaled(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    made, resize = [], Image.Image.resize

    def counted(image: Image.Image, *args: Any, **options: Any) -> Image.Image:
        made.append(resize(image, *args, **options))
        return made[-1]

    monkeypatch.setattr(Image.Image, "resize", counted)
    assert PLAIN.resample(Image.new("RGB", size), (224, 224)).size == (224, 224)
    assert max(max(image.size) for image in made) == 224


def test_an_image_that_fits_is_left_alone_unless_it_is_cropped() -> None:
    image = noise(16, 16)
    assert PLAIN.resample(image, (16, 16)) is image
    assert Fitting(crop=0.5).box((16, 16), (16, 16)) == (4, 4, 12, 12)
    assert Fitting(crop=0.5).resample(image, (16, 16)).size == (16, 16)


def test_a_jpeg_is_not_decoded_smaller_than_the_crop_needs(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 256).astype(np.uint8)
    image = Image.fromarray(np.repeat(np.repeat(ramp[None, :, None], 256, 0), 3, 2))
    image.save(tmp_path / "ramp.jpg", quality=95)
    found = decode(str(tmp_path / "ramp.jpg"), size=64, fitting=Fitting(crop=0.25))[:, :, 0].astype(int)
    assert (abs(found[32, 0] - 96), abs(found[32, -1] - 159)) <= (3, 3)  # the centre quarter, pixel by pixel


def test_a_model_decodes_files_and_arrays_as_its_backbone_says(tmp_path: Path) -> None:
    name = write_backbone(tmp_path / "tiny.pt2", size=24, interpolation="nearest", crop=0.5)
    classifier = ImageClassifier.create(tmp_path / "model", backbone=name)
    centre, images = {"dark": 20, "bright": 230}, {}
    for number, (label, level) in enumerate(centre.items()):
        pixels = np.full((4, 96, 96, 3), 255 * number, dtype=np.uint8)  # the frame says the opposite
        pixels[:, 20:76, 20:76] = level + np.random.default_rng(number).integers(-15, 15, (4, 56, 56, 3))
        images[label] = pixels
    classifier.learn([image for part in images.values() for image in part], ["dark"] * 4 + ["bright"] * 4)
    manifest = classifier._model.manifest
    assert (manifest.fitting, manifest.shape) == (Fitting("nearest", 0.5), (3, 24, 24))
    swapped = images["dark"][0].copy()
    swapped[:20] = swapped[76:] = 255
    swapped[:, :20] = swapped[:, 76:] = 255
    Image.fromarray(swapped).save(tmp_path / "swapped.png")
    file, array = ImageClassifier.open(classifier.path).predict([str(tmp_path / "swapped.png"), swapped])
    assert (file.top, file.top[0][0]) == (array.top, "dark")
