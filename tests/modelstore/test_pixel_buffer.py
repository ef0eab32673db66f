"""Images that do not fit into memory are decoded once too: their pixels wait in a temporary file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from itaml.data import decoding, image_files
from itaml.modelstore import pixel_buffer
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.pixel_buffer import PixelBuffer
from modelstore_support import digits_of


def filled(size: int) -> torch.Tensor | None:
    buffer = PixelBuffer(size)
    for start in (0, 40, 80):
        buffer.add(torch.arange(start, start + 40, dtype=torch.uint8).view(5, 2, 2, 2))
    return buffer.images()


def test_a_file_holds_the_same_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_buffer, "IN_MEMORY", 100)
    memory, file = filled(100), filled(101)
    assert memory is not None
    assert file is not None
    assert torch.equal(memory, torch.arange(120, dtype=torch.uint8).view(15, 2, 2, 2))
    assert torch.equal(file, memory)


def test_a_full_disk_means_to_decode_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pixel_buffer, "IN_MEMORY", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert filled(1) is None
    assert "images are decoded again, because the temporary file fails: No space left on device" in caplog.text


@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_every_file_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    decoded: list[str] = []

    def counted(path: str, **options: Any) -> Any:
        decoded.append(path)
        return decoding.decode(path, **options)

    for digit in (0, 1):
        (tmp_path / "images" / str(digit)).mkdir(parents=True)
        for number, pixels in enumerate(digits_of((digit,), limit=6)[0]):
            Image.fromarray(pixels).save(tmp_path / "images" / str(digit) / f"{number}.png")
    monkeypatch.setattr(image_files, "decode", counted)
    monkeypatch.setattr(pixel_buffer, "IN_MEMORY", limit)
    ImageClassifier.create(tmp_path / "model", method="lda").learn(tmp_path / "images")
    assert len(decoded) == len(set(decoded)) == 12
