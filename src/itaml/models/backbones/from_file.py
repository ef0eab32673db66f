"""Backbones from files: weights for a known network, or an exported program.

A file with the same name and `.json` added describes it: `{"network": "efficientnet-lite0", "size": 224, "mean": [...],
"std": [...], "interpolation": "bilinear", "crop": 1.0}`. `network` says which network the weights fill (not needed for
a `.pt2` program, nor when Python passes a factory); the others default to those of that network.

| file | read by |
|---|---|
| `.safetensors` | safetensors |
| `.pth`, `.pt`, `.bin` | `torch.load(weights_only=True)` |
| `.pt2` | `torch.export.load`, which can run code (see `program_trust`) |
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from itaml.errors import CheckpointError, SettingsError, UnknownNameError, UnsafeFileError
from itaml.models.backbones.efficientnet_lite import VARIANTS, EfficientNetLite
from itaml.models.backbones.module import module_backbone
from itaml.models.backbones.spec import Backbone, Preprocessing
from itaml.models.backbones.wheels import lite_preprocessing, renamed
from itaml.registry import unknown
from itaml.storage import STATE_LIMIT, open_regular, parse_json, read_regular

Factory = Callable[[], nn.Module]
STATE_DICTS = (".pth", ".pt", ".bin")
MAX_SIDE = 4096  # pixels
DESCRIPTION_LIMIT = 1 << 20  # bytes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


DESCRIBED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "network": (lambda value: isinstance(value, str), "text"),
    "size": (lambda value: type(value) is int and 1 <= value <= MAX_SIDE, f"a whole number from 1 to {MAX_SIDE}"),
    "mean": (_are_numbers, "a list of numbers"),
    "std": (_are_numbers, "a list of numbers"),
    "interpolation": (lambda value: isinstance(value, str), "text"),
    "crop": (_is_number, "a number"),
}


def open_file_backbone(
    path: str | Path,
    *,
    factory: Factory | None = None,
    preprocessing: Preprocessing | None = None,
    fold: bool = True,
) -> Backbone:
    """Return a backbone whose weights are in a file.

    Args:
        path: the file.
        factory: makes the network that the weights fill; None takes the one that the description names.
        preprocessing: what it expects of an image; None takes what the description says.
        fold: see `open_backbone`.

    Raises:
        CheckpointError: the file or its description cannot be read, or the weights are of another network.
        SettingsError: the description lacks something.
        UnknownNameError: the description names an unknown network.
    """
    path = Path(path)
    _check_regular(path)
    name = f"file:{path.name}"
    if not path.exists():
        raise CheckpointError(f"there is no file {path} with the weights of a backbone")
    described = _description(path)
    network_name = described.get("network")
    if preprocessing is None:
        preprocessing = _preprocessing(described, network_name, path)
    if path.suffix == ".pt2":
        return module_backbone(_program(path), preprocessing, name=name, fold=False)
    network = factory() if factory is not None else _known_network(network_name, path)
    weights = _weights(path)
    if "_conv_stem.weight" in weights:  # an EfficientNet-Lite under its original names
        weights = renamed(weights)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{path.name} is of another network: {str(error).splitlines()[-1].strip()}") from error
    return module_backbone(network, preprocessing, name=name, fold=fold)


def _check_regular(path: Path) -> None:
    """Refuse a named pipe or a device, which would keep a reader waiting; that a file is missing is said later."""
    try:
        open_regular(os.path.realpath(path), limit=STATE_LIMIT).close()
    except UnsafeFileError as error:
        raise CheckpointError(f"cannot read the weights {path}: {error}") from None
    except OSError:
        pass


def _description(path: Path) -> dict[str, Any]:
    beside = path.with_name(path.name + ".json")
    if not beside.exists():
        return {}
    try:
        found = parse_json(read_regular(os.path.realpath(beside), limit=DESCRIPTION_LIMIT))
    except (OSError, ValueError, UnsafeFileError) as error:
        raise CheckpointError(f"cannot read {beside.name}: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{beside.name} must hold an object, not {type(found).__name__}")
    for key, (valid, what) in DESCRIBED.items():
        if key in found and not valid(found[key]):
            raise CheckpointError(f"{beside.name}: {key} must be {what}")
    return found


def _preprocessing(described: Mapping[str, Any], network: str | None, path: Path) -> Preprocessing:
    values = {key: described[key] for key in ("size", "mean", "std", "interpolation", "crop") if key in described}
    if network in VARIANTS:
        return lite_preprocessing(network, **_tuples(values))
    missing = [key for key in ("size", "mean", "std") if key not in values]
    if missing:
        raise SettingsError(f"{path.name}.json must say {', '.join(missing)}: the network does not imply it")
    return Preprocessing(**_tuples(values))


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _known_network(name: str | None, path: Path) -> nn.Module:
    if name is None:
        raise SettingsError(f"{path.name}.json must say which network the weights fill, or Python pass a factory")
    if name not in VARIANTS:
        raise UnknownNameError(unknown("network for weights in a file", name, VARIANTS))
    return EfficientNetLite(VARIANTS[name].width, VARIANTS[name].depth)


def _weights(path: Path) -> Mapping[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if path.suffix in STATE_DICTS:
            return torch.load(path, weights_only=True, map_location="cpu")  # type: ignore[no-any-return]
    except (OSError, RuntimeError, SafetensorError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"cannot read the weights {path}: {error}") from error
    known = ", ".join((".safetensors", *STATE_DICTS, ".pt2"))
    raise SettingsError(f"{path.name} has no known ending; it must be one of {known}")


class Program(nn.Module):
    """An exported program, which has no training mode to leave."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def train(self, mode: bool = True) -> Program:
        """Do nothing: the mode was fixed when the program was exported."""
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Run the program; old versions of torch export views that need contiguous images."""
        return self.module(images.contiguous())  # type: ignore[no-any-return]


def _program(path: Path) -> nn.Module:
    try:
        return Program(torch.export.load(path).module())
    except Exception as error:  # a zip of JSON and weights: each part fails with an exception of its own
        raise CheckpointError(f"cannot read the exported program {path}: {error}") from error
