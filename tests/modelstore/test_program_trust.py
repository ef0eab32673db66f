"""A program of torch.export can run code: it is loaded for a model's record only if the user has named it before."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from backbone_support import write_backbone
from itaml.errors import CheckpointError
from itaml.models.backbones import program_trust
from itaml.models.backbones.from_file import open_file_backbone
from itaml.modelstore.image_classifier import ImageClassifier


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(program_trust, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(program_trust, "_known", set())
    return tmp_path / "cache"


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (8, 24, 24, 3), dtype=np.uint8)


def forget(cache: Path) -> None:
    """Be another user, who has never named a program."""
    shutil.rmtree(cache)
    program_trust._known.clear()


def test_a_program_of_a_stranger_is_not_loaded(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write_backbone(tmp_path / "net.pt2", size=24)
    model = ImageClassifier.create(tmp_path / "model", method="lda", backbone=name, precision="fp32")
    model.learn(images(), ["a", "b"] * 4)
    program_trust._known.clear()
    assert len(ImageClassifier.open(tmp_path / "model", precision="fp32").classes) == 2  # another process of the user
    forget(cache)
    with pytest.raises(CheckpointError, match=r"net\.pt2 as its backbone, which can run code"):
        ImageClassifier.open(tmp_path / "model", precision="fp32")
    monkeypatch.setenv(program_trust.VARIABLE, "1")
    assert len(ImageClassifier.open(tmp_path / "model", precision="fp32").classes) == 2


@pytest.mark.parametrize("place", ["backbone", "settings"])
def test_a_model_that_has_learned_nothing_names_no_program_either(tmp_path: Path, cache: Path, place: str) -> None:
    name = write_backbone(tmp_path / "net.pt2", size=24)
    options = {"backbone": name} if place == "backbone" else {"settings": {"backbone": name}}
    ImageClassifier.create(tmp_path / "model", method="lda", precision="fp32", **options)
    forget(cache)
    with pytest.raises(CheckpointError, match="set ITAML_TRUST_PROGRAMS=1"):
        ImageClassifier.open(tmp_path / "model", precision="fp32")


def test_a_program_that_was_changed_is_another_program(tmp_path: Path, cache: Path) -> None:
    name = write_backbone(tmp_path / "net.pt2", size=24)
    ImageClassifier.create(tmp_path / "model", method="lda", backbone=name, precision="fp32")
    write_backbone(tmp_path / "net.pt2", size=24, seed=1)
    with pytest.raises(CheckpointError, match="can run code"):
        ImageClassifier.open(tmp_path / "model", precision="fp32")


@pytest.mark.parametrize("ending", [".safetensors", ".pth", ".pt2"])
def test_a_pipe_as_weights_or_their_description_does_not_hang(tmp_path: Path, cache: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"net{ending}")
    with pytest.raises(CheckpointError, match="not a regular file"):
        ImageClassifier.create(tmp_path / "model", method="lda", backbone=f"file:{tmp_path}/net{ending}").learn(
            images(), ["a", "b"] * 4
        )
    (tmp_path / f"net{ending}").unlink()
    (tmp_path / f"net{ending}").write_bytes(b"x")
    os.mkfifo(tmp_path / f"net{ending}.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        ImageClassifier.create(tmp_path / "other", method="lda", backbone=f"file:{tmp_path}/net{ending}").learn(
            images(), ["a", "b"] * 4
        )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"network": []}, "network must be text"),
        ({"size": "x"}, "size must be a whole number from 1 to 4096"),
        ({"size": 10**9}, "size must be a whole number from 1 to 4096"),
        ({"mean": 3}, "mean must be a list of numbers"),
        ({"std": ["a"]}, "std must be a list of numbers"),
        ({"crop": []}, "crop must be a number"),
        ({"interpolation": {}}, "interpolation must be text"),
    ],
)
def test_values_of_a_description_are_checked(tmp_path: Path, change: dict[str, object], what: str) -> None:
    described = {"network": "efficientnet-lite0", "size": 32, "mean": [0, 0, 0], "std": [1, 1, 1], **change}
    (tmp_path / "net.safetensors.json").write_text(json.dumps(described))
    (tmp_path / "net.safetensors").touch()
    with pytest.raises(CheckpointError, match=rf"net\.safetensors\.json: {what}"):
        open_file_backbone(tmp_path / "net.safetensors")
