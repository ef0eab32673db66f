"""A backbone run by ONNX Runtime computes the same features, and a foreign file is found out."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from itaml.errors import CheckpointError, MissingExtraError
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.onnx_network import onnx_backbone
from itaml.models.backbones.spec import Backbone, Preprocessing

INSTALLED = all(find_spec(name) for name in ("onnx", "onnxruntime", "onnxscript"))


def tiny(seed: int) -> Backbone:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 3))
    return module_backbone(network, Preprocessing(8, (0.5,) * 3, (0.5,) * 3), name="tiny")


@pytest.mark.skipif(not INSTALLED, reason="onnx, onnxruntime or onnxscript is not installed")
@pytest.mark.filterwarnings("ignore")
def test_features_are_the_same_for_any_number_of_images(tmp_path: Path) -> None:
    slow = tiny(0)
    fast = onnx_backbone(slow, tmp_path, threads=1)
    for count in (1, 7):
        images = torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8)
        torch.testing.assert_close(fast.features(images), slow.features(images), rtol=1e-4, atol=1e-5)
    (file,) = tmp_path.iterdir()
    other = tiny(1)
    file.rename(tmp_path / f"{other.spec.weights_sha256[:32]}-8.onnx")
    with pytest.raises(CheckpointError, match="does not compute what tiny computes"):
        onnx_backbone(other, tmp_path, threads=1)
    (tmp_path / f"{slow.spec.weights_sha256[:32]}-8.onnx").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="delete it, and it is made again"):
        onnx_backbone(slow, tmp_path, threads=1)


@pytest.mark.skipif(find_spec("onnxruntime") is not None, reason="onnxruntime is installed")
def test_without_onnxruntime_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="pip install onnxruntime"):
        onnx_backbone(tiny(0), tmp_path)
