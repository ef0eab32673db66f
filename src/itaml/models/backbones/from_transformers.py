"""Backbones of transformers: a model folder, or a repository of the Hugging Face hub.

The preprocessing is read from `preprocessor_config.json`, not by classes of transformers that may need
torchvision. Weights are read from safetensors only, and code in a repository is never run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from itaml.data.fitting import Interpolation
from itaml.errors import CheckpointError, MissingExtraError
from itaml.models.backbones.module import import_optional, module_backbone
from itaml.models.backbones.spec import Backbone, Preprocessing

CONFIG = "preprocessor_config.json"
_RESAMPLE: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers


class ImageEncoder(nn.Module):
    """A transformers model that returns one vector per image: its pooled output, else its first token or mean."""

    def __init__(self, model: nn.Module, *, pooler: bool = True) -> None:
        super().__init__()
        self.model = getattr(model, "vision_model", model)  # of CLIP and its like, the half that sees images
        self.pooler = pooler

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, features) or, for convolutional models, (n, features, h, w)."""
        output = self.model(pixel_values=images)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is not None and self.pooler:
            return pooled.flatten(1)
        hidden: Tensor = output.last_hidden_state
        return hidden if hidden.ndim == 4 else hidden[:, 0]


def open_transformers_backbone(name: str) -> Backbone:
    """Return a vision model of transformers.

    Args:
        name: a folder written by `save_pretrained`, or a repository (downloaded once by transformers).

    Raises:
        MissingExtraError: transformers is not installed, or not usable beside the installed torch.
        CheckpointError: the model or its preprocessing cannot be read.
    """
    transformers = import_optional("transformers", "transformers", f"hf:{name}")
    try:
        model, info = transformers.AutoModel.from_pretrained(
            name, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        recorded = json.loads(_config_file(name).read_text(encoding="utf-8"))
    except ImportError as error:  # transformers imports torchvision where it is installed, even a broken one
        raise MissingExtraError(f"transformers, which hf:{name} needs, cannot be imported: {error}") from error
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"transformers cannot load {name}: {reason}") from error
    missing = sorted(info["missing_keys"])  # transformers fills them with random numbers
    absent = [key for key in missing if "pooler" not in key]
    if absent:
        raise CheckpointError(f"{name} lacks {len(absent)} weights, among them {absent[0]}")
    encoder = ImageEncoder(model, pooler=not missing)
    return module_backbone(encoder, transformers_preprocessing(recorded), name=f"hf:{name}")


def transformers_preprocessing(recorded: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing that a `preprocessor_config.json` describes.

    Raises:
        CheckpointError: it has no size.
    """
    resized = _side(recorded.get("size"))
    size = _side(recorded.get("crop_size")) if recorded.get("do_center_crop") else resized
    if size is None:
        raise CheckpointError(f"{CONFIG} has no size in pixels (size: {recorded.get('size')!r})")
    normalized = recorded.get("do_normalize", True)
    mean, std = recorded.get("image_mean"), recorded.get("image_std")
    return Preprocessing(
        size=size,
        mean=tuple(map(float, mean)) if normalized and mean else (0.0,) * 3,
        std=tuple(map(float, std)) if normalized and std else (1.0,) * 3,
        interpolation=_RESAMPLE.get(recorded.get("resample", 2), "bilinear"),
        crop=min(1.0, size / resized) if resized else 1.0,
    )


def _side(size: Any) -> int | None:
    if isinstance(size, Mapping):
        size = size.get("shortest_edge", size.get("height"))
    return int(size) if isinstance(size, int) else None


def _config_file(name: str) -> Path:
    folder = Path(name)
    if folder.is_dir():
        return folder / CONFIG
    hub = import_optional("huggingface_hub", "huggingface_hub", f"hf:{name}")
    return Path(hub.hf_hub_download(name, CONFIG))
