"""Make a backbone of any network: probe its features, hash its weights, prepare it for inference."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor, nn

from itaml.errors import MissingExtraError, SettingsError
from itaml.models.backbones.fold import fold_batch_norm
from itaml.models.backbones.spec import Backbone, BackboneSpec, Preprocessing


def module_backbone(
    network: nn.Module, preprocessing: Preprocessing, *, name: str = "module", fold: bool = True
) -> Backbone:
    """Return a backbone of a network that maps normalised images (n, channels, h, w) to features.

    Args:
        network: its output is (n, features), or (n, features, h, w), which is averaged over the positions.
        preprocessing: what it expects of an image.
        name: what messages and saved models call it.
        fold: fold batch normalization into convolutions, for inference.

    Raises:
        SettingsError: the network does not take such images or returns something else.
    """
    digest = hash_weights(network.state_dict())
    ready = Pooled(fold_batch_norm(network) if fold else network.eval())
    features = _probe(ready, preprocessing, name)
    return Backbone(BackboneSpec(name, features, preprocessing, digest), ready)


class Pooled(nn.Module):
    """A network whose feature maps are averaged over their positions."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return features (n, features)."""
        output: Tensor = self.network(images)
        return output.mean((2, 3)) if output.ndim == 4 else output


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of named weights: their names, types, shapes and bytes, whatever their order."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def without_classifier(network: nn.Module) -> nn.Module:
    """Replace the last linear layer of a classifier by the identity, in place, and return the network.

    Raises:
        SettingsError: it has none.
    """
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SettingsError(f"{type(network).__name__} has no linear layer whose input could serve as features")
    parent, _, attribute = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), attribute, nn.Identity())
    return network


def import_optional(module: str, package: str, name: str) -> ModuleType:
    """Import a module of an optional package.

    Raises:
        MissingExtraError: it is not installed, or does not work beside the installed torch.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == module.split(".", maxsplit=1)[0]:
            raise MissingExtraError(f"{name} needs {package}: pip install {package}") from error
        raise MissingExtraError(f"{package}, which {name} needs, cannot be imported: {error}") from error
    except (ImportError, RuntimeError, OSError) as error:  # a torchvision built for another torch raises RuntimeError
        raise MissingExtraError(f"{package}, which {name} needs, cannot be imported: {error}") from error


@torch.inference_mode()
def _probe(network: nn.Module, preprocessing: Preprocessing, name: str) -> int:
    shape = (2, len(preprocessing.mean), preprocessing.size, preprocessing.size)
    try:
        output = network(torch.zeros(shape))
    except Exception as error:  # any layer may refuse the shape, each with an exception of its own
        reason = " ".join(str(error).split())
        raise SettingsError(f"{name} does not take images {shape}: {reason}") from error
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 2:
        found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise SettingsError(f"{name} must return features (n, features); for 2 images it returned {found}")
    return output.shape[1]
