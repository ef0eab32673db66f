"""A network that does not fit into the memory is refused before it is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from itaml.errors import SettingsError
from itaml.hardware import machine
from itaml.modelstore import network_memory
from itaml.modelstore.image_classifier import ImageClassifier
from modelstore_support import digits_of


def test_the_sentence_says_how_much_memory_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_memory, "available_memory", lambda: 10 * 10**9)
    classifier = ImageClassifier.create(tmp_path / "model", method="itaml", backbone="mlp", image_size=1000)
    images = np.random.default_rng(0).integers(0, 256, (4, 20, 20, 3), dtype=np.uint8)
    with pytest.raises(
        SettingsError, match=r"mlp for images of 1000 x 1000 pixels has 4.8 GB .* at least 14.4 GB, but"
    ):
        classifier.learn(images, ["a", "a", "b", "b"])
    assert not (tmp_path / "model" / "versions" / "000001").exists()


def test_a_machine_that_does_not_say_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_memory, "available_memory", lambda: None)
    classifier = ImageClassifier.create(tmp_path / "model", method="itaml", backbone="mlp", epochs=1)
    assert classifier.learn(*digits_of((0, 1))).changed


def test_the_free_memory_is_the_least_of_what_the_system_and_the_control_group_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:     500 kB\n")
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.available_memory() == 500 << 10
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_memory() == 500 << 10
    (tmp_path / "memory.max").write_text("4000\n")
    assert machine.available_memory() == 3000
    (tmp_path / "meminfo").write_text("nothing\n")
    assert machine.available_memory() is None
