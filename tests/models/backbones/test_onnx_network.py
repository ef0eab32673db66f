"""A backbone run by ONNX Runtime computes the same features, and a foreign file is found out."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from itaml.errors import CheckpointError, MissingExtraError, SettingsError
from itaml.models import features
from itaml.models.backbones import runtime
from itaml.models.backbones.hub import open_backbone
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.onnx_network import onnx_backbone, onnx_file
from itaml.models.backbones.spec import Backbone, Preprocessing
from itaml.models.features import FeatureExtractor
from itaml.modelstore.image_classifier import ImageClassifier

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
    with pytest.raises(MissingExtraError, match=r"pip install 'itaml\[export\]'"):
        onnx_backbone(tiny(0), tmp_path)


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(runtime, "find_spec", lambda name: object() if name in names else None)
    monkeypatch.setenv("ITAML_RUNTIME", "auto")


def test_what_computes_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, backbone = torch.device("cpu"), tiny(0)

    def chosen(device: torch.device = cpu) -> str:
        return runtime.choose_runtime(backbone, device, folder=tmp_path)

    installed(monkeypatch)
    assert chosen() == "torch"
    installed(monkeypatch, "onnxruntime")
    assert chosen() == "torch", "nothing can be exported"
    onnx_file(backbone, tmp_path).write_bytes(b"exported before")
    assert chosen() == "onnx"
    assert chosen(torch.device("cuda")) == "torch"
    onnx_file(backbone, tmp_path).unlink()
    installed(monkeypatch, "onnxruntime", "onnx", "onnxscript")
    assert chosen() == "onnx"
    monkeypatch.setenv("ITAML_RUNTIME", "torch")
    assert chosen() == "torch"
    monkeypatch.setenv("ITAML_RUNTIME", "fast")
    with pytest.raises(SettingsError, match="ITAML_RUNTIME is auto or torch, not 'fast'"):
        chosen()


def test_an_export_that_does_not_work_leaves_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: object, **__: object) -> Backbone:
        raise CheckpointError("the file is damaged")

    monkeypatch.setattr(runtime, "onnx_backbone", damaged)
    backbone = tiny(0)
    file = onnx_file(backbone, tmp_path)
    file.write_bytes(b"nothing")
    assert runtime.open_runtime(backbone, folder=tmp_path) is backbone
    assert not file.exists(), "it is made again next time"
    assert "tiny is computed by torch, not by ONNX Runtime: the file is damaged" in caplog.text


def test_an_onnxruntime_that_lacks_what_is_needed_leaves_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))  # no SessionOptions
    backbone = tiny(0)
    onnx_file(backbone, tmp_path).write_bytes(b"exported before")
    assert runtime.open_runtime(backbone, folder=tmp_path) is backbone
    assert len(caplog.records) == 1
    assert "has no attribute 'SessionOptions'" in caplog.text
    monkeypatch.setenv("ITAML_RUNTIME", "auto")
    assert runtime.choose_runtime(backbone, torch.device("cpu"), folder=tmp_path) == "torch", "it has no __spec__"


def test_features_of_the_runtimes_are_cached_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = FeatureExtractor(tiny(0))
    monkeypatch.setattr("itaml.models.features.choose_runtime", lambda *_: "onnx")
    monkeypatch.setattr("itaml.models.features.open_runtime", replace)
    fast = FeatureExtractor(tiny(0))
    assert fast.extraction == slow.extraction, "a model made with one is used with the other"
    assert fast.cache_key == f"{slow.cache_key}-onnx"
    images = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fast(images), slow(images))
    monkeypatch.setattr("itaml.models.features.open_runtime", lambda backbone: backbone)  # it did not work
    fallen = FeatureExtractor(tiny(0))
    assert (fallen.cache_key, fallen.runtime) == (slow.cache_key, "torch"), "these are torch's features"


@pytest.mark.skipif(not (find_spec("onnx") and find_spec("onnxruntime")), reason="onnx or onnxruntime is not installed")
def test_an_efficientnet_lite_is_written_without_tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.onnx, "export", None)
    slow = open_backbone("efficientnet-lite0")
    fast = onnx_backbone(slow, tmp_path, threads=1)
    for side in (224, 96, 75):  # an odd side has as much padding on both sides
        images = torch.randint(
            0, 256, (2, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
        )
        torch.testing.assert_close(fast.features(images), slow.features(images), rtol=1e-3, atol=1e-3)
    installed(monkeypatch, "onnxruntime", "onnx")
    assert runtime.choose_runtime(slow, torch.device("cpu"), folder=tmp_path / "empty") == "onnx"


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="onnx, onnxruntime or onnxscript is not installed")
@pytest.mark.filterwarnings("ignore")
def test_lite0_computes_the_same_in_both_runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = open_backbone("efficientnet-lite0")
    fast = onnx_backbone(slow, tmp_path, threads=1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8, generator=generator)
    images = torch.nn.functional.interpolate(images, size=(224, 224))
    expected, found = slow.features(images), fast.features(images)
    assert float((found - expected).abs().max()) <= 1e-3 * float(expected.abs().max())

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos = {name: draw(name) for name in ("red", "green", "blue")}
    answers = {}
    for learns, predicts in (("auto", "torch"), ("torch", "auto"), ("torch", "torch")):
        path = tmp_path / f"{learns}-{predicts}"
        for step, wanted in enumerate((learns, predicts)):
            monkeypatch.setenv("ITAML_RUNTIME", wanted)
            features._installed.cache_clear()
            if step == 0:
                everything = [image for images in photos.values() for image in images[:4]]
                made = ImageClassifier.create(path, image_size=224)
                made.learn(everything, [name for name in photos for _ in range(4)])
                assert made._model.learner.extractor.runtime == ("onnx" if wanted == "auto" else "torch")  # type: ignore[union-attr]
            else:
                tested = [image for images in photos.values() for image in images[4:]]
                answers[learns, predicts] = ImageClassifier.open(path).predict(tested, top=3)
    first, *others = answers.values()
    assert [p.label for p in first] == ["red", "red", "green", "green", "blue", "blue"]
    for other in others:
        assert [p.label for p in other] == [p.label for p in first]
        assert [p.confidence for p in other] == pytest.approx([p.confidence for p in first], abs=1e-3)
    features._installed.cache_clear()


def draw(name: str) -> list[npt.NDArray[np.uint8]]:
    """Return six noisy images of a colour."""
    colour = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200)}[name]
    generator = np.random.default_rng(len(name))
    return [(colour + generator.normal(0, 30, (80, 80, 3))).clip(0, 255).astype(np.uint8) for _ in range(6)]
