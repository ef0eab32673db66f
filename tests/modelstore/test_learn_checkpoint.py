"""A learn that is interrupted continues where it was, to the same bits."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from itaml.events import EpochDone, Event
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.learn_checkpoint import LearnCheckpoint
from itaml.modelstore.model_folder import CHECKPOINT
from support import same_bits


class _Interrupt(BaseException):
    pass


@pytest.fixture(autouse=True)
def _every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LearnCheckpoint.__init__
    monkeypatch.setattr(LearnCheckpoint, "__init__", lambda self, folder: original(self, folder, seconds=0.0))


def digits(seed: int, count: int = 24) -> tuple[Any, list[str]]:
    generator = np.random.default_rng(seed)
    labels = [f"class {seed * 2 + number % 2}" for number in range(count)]
    patterns = {name: generator.integers(0, 256, (8, 8)) for name in sorted(set(labels))}
    noise = generator.normal(0, 30, (count, 8, 8))
    images = np.stack([patterns[name] for name in labels]) + noise
    return images.clip(0, 255).astype(np.uint8), labels


def interrupt_after(epoch: int) -> Any:
    def callback(event: Event) -> None:
        if isinstance(event, EpochDone) and event.epoch == epoch:
            raise _Interrupt

    return callback


def made(path: Path) -> ImageClassifier:
    return ImageClassifier.create(path, device="cpu", precision="fp32", epochs=4, memory=40, seed=3)


@pytest.mark.parametrize("first", [True, False])
def test_an_interrupted_learn_continues_to_the_same_bits(tmp_path: Path, first: bool) -> None:
    whole, parted = made(tmp_path / "whole"), made(tmp_path / "parted")
    if not first:
        for classifier in (whole, parted):
            classifier.learn(*digits(0))
    whole.learn(*digits(1))
    with pytest.raises(_Interrupt):
        parted.learn(*digits(1), callback=interrupt_after(2))
    assert (tmp_path / "parted" / CHECKPOINT).is_file()
    seen: list[int] = []
    again = ImageClassifier.open(tmp_path / "parted", device="cpu", precision="fp32")
    again.learn(*digits(1), callback=lambda e: seen.append(e.epoch) if isinstance(e, EpochDone) else None)
    assert seen == [3, 4], "the first two epochs are not repeated"
    assert not (tmp_path / "parted" / CHECKPOINT).exists()
    assert same_bits(again._model.state(), whole._model.state())
    images = digits(1)[0]
    assert [p.confidence for p in again.predict(images)] == [p.confidence for p in whole.predict(images)]


def test_other_images_do_not_continue_an_interrupted_learn(tmp_path: Path) -> None:
    classifier = made(tmp_path / "model")
    with pytest.raises(_Interrupt):
        classifier.learn(*digits(0), callback=interrupt_after(3))
    seen: list[int] = []
    classifier.learn(*digits(1), callback=lambda e: seen.append(e.epoch) if isinstance(e, EpochDone) else None)
    assert seen == [1, 2, 3, 4]
    assert classifier.classes == ("class 2", "class 3")


def test_a_damaged_checkpoint_is_ignored(tmp_path: Path) -> None:
    classifier = made(tmp_path / "model")
    with pytest.raises(_Interrupt):
        classifier.learn(*digits(0), callback=interrupt_after(2))
    (tmp_path / "model" / CHECKPOINT).write_bytes(b"not a checkpoint")
    seen: list[int] = []
    classifier.learn(*digits(0), callback=lambda e: seen.append(e.epoch) if isinstance(e, EpochDone) else None)
    assert seen == [1, 2, 3, 4]
    assert not classifier.verify()


def test_a_disk_without_room_for_checkpoints_does_not_change_what_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, starved = made(tmp_path / "whole"), made(tmp_path / "starved")
    whole.learn(*digits(1))
    real, refused = os.fsync, list[int]()

    def full(handle: int) -> None:
        if any(CHECKPOINT in name for name in os.listdir(tmp_path / "starved")):
            refused.append(handle)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    starved.learn(*digits(1))
    assert len(refused) == 4, "once for every epoch"
    assert sorted(os.listdir(tmp_path / "starved")) == ["current.json", "lock", "versions"]
    assert same_bits(starved._model.state(), whole._model.state())
