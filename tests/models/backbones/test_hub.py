"""Backbones by name: each source with a tiny network that the test itself makes."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from itaml.errors import CheckpointError, MissingExtraError, SettingsError, UnknownNameError
from itaml.models.backbones.efficientnet_lite import EfficientNetLite
from itaml.models.backbones.from_file import open_file_backbone
from itaml.models.backbones.from_transformers import transformers_preprocessing
from itaml.models.backbones.hub import open_backbone
from itaml.models.backbones.module import hash_weights, import_optional, module_backbone, without_classifier
from itaml.models.backbones.spec import Preprocessing

TINY = Preprocessing(8, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.25), interpolation="bicubic", crop=0.875)


class TinyClassifier(nn.Module):
    """Four features and a classifier of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.fc = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.body(images).mean((2, 3)))  # type: ignore[no-any-return]


def tiny(seed: int = 0) -> TinyClassifier:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return TinyClassifier().eval()


def images() -> Tensor:
    return torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def expected(network: TinyClassifier) -> Tensor:
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (TINY.mean, TINY.std))
    with torch.no_grad():
        return network.body((images() / 255 - mean) / std).mean((2, 3))  # type: ignore[no-any-return]


def test_any_module_becomes_a_backbone() -> None:
    for network in (without_classifier(tiny()), tiny().body):  # a vector, and a map of features
        backbone = module_backbone(network, TINY, name="mine")
        assert (backbone.spec.name, backbone.spec.features) == ("mine", 4)
        torch.testing.assert_close(backbone.features(images()), expected(tiny()))


def test_modules_that_return_no_features_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"mine does not take images \(2, 3, 8, 8\)"):
        module_backbone(nn.Conv2d(1, 2, 1), TINY, name="mine")
    with pytest.raises(SettingsError, match=r"for 2 images it returned \(6,\)"):
        module_backbone(nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.Flatten(0)), TINY)
    with pytest.raises(SettingsError, match="Conv2d has no linear layer"):
        without_classifier(nn.Conv2d(1, 2, 1))


def test_the_hash_names_the_weights_whatever_their_order() -> None:
    weights = tiny().state_dict()
    assert hash_weights(weights) == hash_weights(dict(reversed(weights.items())))
    assert hash_weights(weights) != hash_weights(tiny(1).state_dict())


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="no backbone 'efficientnet-lite'; did you mean 'efficientnet-lite"):
        open_backbone("efficientnet-lite")
    with pytest.raises(UnknownNameError, match="no source of backbones 'tim'; did you mean 'timm'"):
        open_backbone("tim:resnet18")
    with pytest.raises(SettingsError, match="write file:PATH"):
        open_backbone("file:")


def test_a_package_that_is_absent_or_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="needs nothing-here: pip install nothing-here"):
        import_optional("nothing_here.models", "nothing-here", "x:y")
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="broken-here, which x:y needs, cannot be imported: operator nms"):
        import_optional("broken_here", "broken-here", "x:y")


class Fake(ModuleType):
    """A module with the given attributes."""

    def __init__(self, name: str, **attributes: object) -> None:
        super().__init__(name)
        self.__dict__.update(attributes)


def test_timm_brings_its_preprocessing(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        assert (name, pretrained, num_classes) == ("tiny", True, 0)
        network = without_classifier(tiny())
        network.pretrained_cfg = {  # type: ignore[assignment]
            "input_size": (3, 8, 8), "mean": TINY.mean, "std": TINY.std, "interpolation": "bicubic", "crop_pct": 0.875
        }  # fmt: skip
        return network

    fake = Fake("timm", create_model=create_model, is_model=lambda name: name == "tiny", list_models=lambda: ["tiny"])
    monkeypatch.setitem(sys.modules, "timm", fake)
    backbone = open_backbone("timm:tiny")
    assert backbone.spec.preprocessing == TINY
    torch.testing.assert_close(backbone.features(images()), expected(tiny()))
    with pytest.raises(UnknownNameError, match="no timm model 'tinny'; did you mean 'tiny'"):
        open_backbone("timm:tinny")


def test_torchvision_brings_its_preprocessing(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = SimpleNamespace(
        crop_size=[8], resize_size=[10], mean=TINY.mean, std=TINY.std, interpolation=SimpleNamespace(value="bilinear")
    )
    weights = SimpleNamespace(transforms=lambda: preset)
    models = Fake(
        "torchvision.models",
        list_models=lambda: ["tiny"],
        get_model_weights=lambda name: SimpleNamespace(DEFAULT=weights),
        get_model=lambda name, weights: tiny(),
    )
    monkeypatch.setitem(sys.modules, "torchvision", Fake("torchvision", models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    backbone = open_backbone("torchvision:tiny")
    assert backbone.spec.preprocessing == Preprocessing(8, TINY.mean, TINY.std, "bilinear", 0.8)
    torch.testing.assert_close(backbone.features(images()), expected(tiny()))
    with pytest.raises(UnknownNameError, match="no torchvision model 'huge'"):
        open_backbone("torchvision:huge")


def test_preprocessing_of_transformers() -> None:
    cropped = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224}, "do_center_crop": True, "resample": 3}
    found = transformers_preprocessing(cropped | {"image_mean": [0.5] * 3, "image_std": [0.25] * 3})
    assert found == Preprocessing(224, (0.5,) * 3, (0.25,) * 3, "bicubic", 0.875)
    assert transformers_preprocessing({"size": 32}) == Preprocessing(32, (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(CheckpointError, match="has no size"):
        transformers_preprocessing({})


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_transformers(tmp_path: Path) -> None:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=8, patch_size=4
    )
    model = transformers.ViTModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(tmp_path)
    recorded = {"size": {"height": 8, "width": 8}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(recorded))
    backbone = open_backbone(f"hf:{tmp_path}")
    with torch.no_grad():
        tokens = model(pixel_values=images() / 127.5 - 1).last_hidden_state
    assert backbone.spec.features == 8
    torch.testing.assert_close(backbone.features(images()), tokens[:, 0], rtol=1e-4, atol=1e-5)  # no pooler was saved
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match="transformers cannot load"):
        open_backbone(f"hf:{tmp_path}")


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """Return a folder; what is saved there as `tiny.*` has a description."""
    values = {"size": 8, "mean": TINY.mean, "std": TINY.std, "interpolation": "bicubic", "crop": 0.875}
    for ending in (".safetensors", ".pth", ".pt2"):
        (tmp_path / f"tiny{ending}.json").write_text(json.dumps(values))
    return tmp_path


@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
def test_weights_in_a_file_with_a_factory(described: Path, ending: str) -> None:
    path, weights = described / f"tiny{ending}", tiny().body.state_dict()
    save_file(weights, path) if ending == ".safetensors" else torch.save(weights, path)
    backbone = open_file_backbone(path, factory=lambda: tiny(1).body)
    assert backbone.spec.preprocessing == TINY
    torch.testing.assert_close(backbone.features(images()), expected(tiny()))
    with pytest.raises(CheckpointError, match="is of another network"):
        open_file_backbone(path, factory=lambda: nn.Linear(2, 2))
    with pytest.raises(SettingsError, match="must say which network the weights fill"):
        open_backbone(f"file:{path}")


def test_weights_of_a_known_network_need_its_name_only(tmp_path: Path) -> None:
    network = EfficientNetLite().eval()
    save_file(network.state_dict(), tmp_path / "mine.safetensors")
    (tmp_path / "mine.safetensors.json").write_text('{"network": "efficientnet-lite0", "size": 32}')
    backbone = open_backbone(f"file:{tmp_path / 'mine.safetensors'}")
    assert backbone.spec.preprocessing == Preprocessing(32, (127 / 255,) * 3, (128 / 255,) * 3)
    assert backbone.spec.weights_sha256 == hash_weights(network.state_dict())
    (tmp_path / "mine.safetensors.json").write_text('{"network": "efficientnet-lite9"}')
    with pytest.raises((UnknownNameError, SettingsError)):
        open_backbone(f"file:{tmp_path / 'mine.safetensors'}")


def test_an_exported_program(described: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(tiny().body, (torch.zeros(2, 3, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, described / "tiny.pt2")
    backbone = open_backbone(f"file:{described / 'tiny.pt2'}")
    torch.testing.assert_close(backbone.features(images()), expected(tiny()))


def test_files_that_cannot_be_read(described: Path) -> None:
    for ending in (".safetensors", ".pth", ".pt2"):
        (described / f"tiny{ending}").write_bytes(b"nothing")
        with pytest.raises(CheckpointError, match=rf"cannot read the .*tiny\{ending}"):
            open_file_backbone(described / f"tiny{ending}", factory=tiny)
    with pytest.raises(CheckpointError, match=r"there is no file .*other\.pth with the weights of a backbone"):
        open_file_backbone(described / "other.pth")
    (described / "other.pth").write_bytes(b"nothing")
    with pytest.raises(SettingsError, match=r"other\.pth\.json must say size, mean, std"):
        open_file_backbone(described / "other.pth")
    (described / "tiny.xyz").write_bytes(b"nothing")
    with pytest.raises(SettingsError, match=r"must be one of \.safetensors, \.pth, \.pt, \.bin, \.pt2"):
        open_file_backbone(described / "tiny.xyz", factory=tiny, preprocessing=TINY)
    (described / "tiny.pth.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"tiny\.pth\.json must hold an object, not list"):
        open_file_backbone(described / "tiny.pth")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, r"size must be >= 1 \(got 0\)"),
        ({"std": (1.0,)}, "one value per channel"),
        ({"std": (1.0, 0.0, 1.0)}, r"std must be > 0 \(got 0.0\)"),
        ({"interpolation": "cubic"}, r"interpolation must be one of .* \(got 'cubic'\)"),
        ({"crop": 1.5}, r"crop must be > 0 and <= 1 \(got 1.5\)"),
    ],
)
def test_impossible_preprocessing(changes: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"size": 8, "mean": TINY.mean, "std": TINY.std}
    with pytest.raises(SettingsError, match=message):
        Preprocessing(**(values | changes))  # type: ignore[arg-type]
