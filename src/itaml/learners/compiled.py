"""A backbone compiled by torch.compile, for training only.

Only whole mini-batches go through it: the last one of an epoch is of another size, and every size is compiled again,
which takes longer than it would save. Inference stays as it is: its batches come in all sizes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from itaml.errors import SettingsError

MAX_SHAPES = 64  # compiled versions of one network: progressive resizing has many sizes


class CompiledBackbone:
    """Callable like the backbone, whose weights it shares.

    Args:
        backbone: the network.
        batch_size: how many images a whole mini-batch has.
        device: where it computes.

    Raises:
        SettingsError: there is no C++ compiler.
    """

    def __init__(self, backbone: nn.Module, *, batch_size: int, device: torch.device) -> None:
        if device.type == "cpu" and not _cpp_compiler():
            raise SettingsError("compile needs a C++ compiler (g++ or clang++), and none is installed")
        self.backbone = backbone
        self.batch_size = batch_size
        self._compiled: Callable[[Tensor], Tensor] | None = None  # compiled at the first whole mini-batch

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of normalised images."""
        if len(images) != self.batch_size or len(images) == 1:
            return self.backbone(images)  # type: ignore[no-any-return]
        if self._compiled is None:
            allow_shapes(torch._dynamo.config)
            self._compiled = torch.compile(self.backbone, dynamic=False)
        return self._compiled(images)


def allow_shapes(limits: Any) -> None:
    """Let torch compile one network for `MAX_SHAPES` shapes; before torch 2.7 the limit had another name."""
    name = "recompile_limit" if hasattr(limits, "recompile_limit") else "cache_size_limit"
    setattr(limits, name, max(getattr(limits, name), MAX_SHAPES))


def _cpp_compiler() -> bool:
    """Return whether torch will find a C++ compiler."""
    named = os.environ.get("CXX")
    return any(shutil.which(name) for name in ((named,) if named else ("g++", "clang++", "cl")))
