"""Pillow's warnings about damaged images reach nobody, and its filters are as before afterwards."""

from __future__ import annotations

import io
import logging
import struct
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from itaml.data.decoding import decode
from itaml.data.pillow_warnings import no_pillow_warnings
from itaml.modelstore.image_classifier import ImageClassifier


def bad_exif() -> bytes:
    """Return a JPEG whose EXIF data ends too soon."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x01")
    return buffer.getvalue()


def many_samples() -> bytes:
    """Return a TIFF that says it has 9 samples for each pixel, of which Pillow logs an error."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "TIFF")
    data = buffer.getvalue()
    tag = struct.pack("<HHI", 277, 3, 1)  # SamplesPerPixel, one short
    place = data.index(tag) + len(tag)
    return data[:place] + struct.pack("<H", 9) + data[place + 2 :]


def test_pillow_itself_warns_of_such_files(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="PIL")  # other tests have the commands switch it off
    with pytest.warns(UserWarning, match="Corrupt EXIF data"):
        Image.open(io.BytesIO(bad_exif())).load()
    with pytest.raises(UnidentifiedImageError), Image.open(io.BytesIO(many_samples()), formats=["TIFF"]):
        pass
    assert "samples" in caplog.text


@pytest.mark.filterwarnings("error")
def test_no_warning_reaches_a_caller_of_many_threads(tmp_path: Path) -> None:
    before, data, failures = list(warnings.filters), bad_exif(), list[BaseException]()

    def decode_often() -> None:
        try:
            for _ in range(50):
                decode(data, size=4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=decode_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(warnings.filters) == before
    with pytest.raises(UserWarning, match="Corrupt EXIF data"):  # an image of somebody else
        Image.open(io.BytesIO(data)).load()


@pytest.mark.filterwarnings("error")
def test_a_model_learns_and_predicts_such_files_without_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            pixels = np.random.default_rng(number + 10 * (name == "b")).integers(0, 256, (8, 8, 3), dtype=np.uint8)
            path = tmp_path / "images" / name / f"{number}.jpg"
            Image.fromarray(pixels).save(path, exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x01")
    model = ImageClassifier.create(tmp_path / "model", method="lda", precision="fp32")
    model.learn(tmp_path / "images")
    found = model.predict([tmp_path / "images" / "a" / "0.jpg", Image.new("P", (8, 8))])
    assert len(found) == 2
    assert capfd.readouterr() == ("", "")


def test_the_error_that_pillow_logs_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="PIL")
    logger = logging.getLogger("PIL.TiffImagePlugin")
    with no_pillow_warnings(), no_pillow_warnings(), pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(many_samples()), formats=["TIFF"])
    assert caplog.text == ""
    assert not logger.disabled
