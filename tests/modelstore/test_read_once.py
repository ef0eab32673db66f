"""A learn decodes every image once, and reads and hashes the model once."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from itaml.data import decoding as decode
from itaml.data import image_files as files
from modelstore_support import TINY, Ran, digits_of, tiny_model

Itaml = Callable[..., Ran]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the images that are decoded, by path."""
    counts: Counter[str] = Counter()

    def counted(path: str, **options: Any) -> Any:
        counts[path] += 1
        return decode.decode(path, **options)

    monkeypatch.setattr(files, "decode", counted)
    return counts


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the files that are opened for reading, by name."""
    counts: Counter[str] = Counter()
    open_file = os.open

    def counted(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0 and not flags & os.O_DIRECTORY:
            counts[os.path.basename(path)] += 1
        return open_file(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", counted)
    return counts


def write(root: Path, digits: tuple[int, ...]) -> Path:
    for digit in digits:
        (root / str(digit)).mkdir(parents=True)
        for number, image in enumerate(digits_of((digit,), limit=6)[0]):
            Image.fromarray(image).save(root / str(digit) / f"{digit}-{number}.png")
    return root


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="counts by flags of Unix")
def test_a_learn_decodes_each_image_once_and_reads_the_model_once(
    itaml: Itaml, tmp_path: Path, decoded: Counter[str], opened: Counter[str]
) -> None:
    first, second = write(tmp_path / "first", (0, 1)), write(tmp_path / "second", (2,))
    options = ("--epochs", 2, "--quiet")
    assert itaml("learn", tmp_path / "model", first, "--backbone", TINY, *options).code == 0
    assert (len(decoded), set(decoded.values())) == (12, {1})
    assert max(opened[name] for name in opened if name.endswith(".png")) == 2  # the header, and the pixels
    decoded.clear()
    opened.clear()
    assert itaml("learn", tmp_path / "model", second, *options).code == 0
    assert (len(decoded), set(decoded.values())) == (6, {1})
    assert max(opened[name] for name in opened if name.endswith(".png")) == 1
    assert opened["state.safetensors"] == 1
    assert opened["model.json"] == 1


def test_a_model_is_hashed_once_when_it_is_opened_and_once_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(*digits_of((0, 1)))
    size = (tmp_path / "model" / "versions" / "000001" / "state.safetensors").stat().st_size
    hashed: list[int] = []
    sha256 = hashlib.sha256

    def counted(data: bytes = b"", **options: Any) -> Any:
        hashed.append(len(data))
        return sha256(data, **options)

    monkeypatch.setattr(hashlib, "sha256", counted)
    classifier.learn(*digits_of((2,)))  # goes on with what is in memory
    big = [length for length in hashed if length >= size]
    assert len(big) == 1  # the new version
    hashed.clear()
    type(classifier).open(classifier.path)
    assert len([length for length in hashed if length >= size]) == 1


def test_a_failed_learn_leaves_the_model_in_memory_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = tiny_model(tmp_path / "model")
    classifier.learn(*digits_of((0, 1)))
    test = digits_of((0, 1), limit=3, skip=20)[0]
    before = classifier.predict(test)

    def stop(event: object) -> None:
        if type(event).__name__ == "EpochDone":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classifier.learn(*digits_of((2,)), callback=stop)
    assert classifier.predict(test) == before
    assert classifier.version == 1
