"""Which device and number format to use."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from itaml.config import Compute
from itaml.errors import SettingsError
from itaml.models.classifier import Classifier


def pick_device(compute: Compute) -> torch.device:
    """Return the device asked for, or the fastest there is for `auto`.

    Raises:
        SettingsError: the device is not there.
    """
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if compute.device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if there[name]))
    if not there[compute.device]:
        raise SettingsError(f"device {compute.device} is not available on this machine")
    return torch.device(compute.device)


def has_convolutions(model: nn.Module) -> bool:
    """Say whether a network convolves, which is where formats and memory layout matter."""
    return any(isinstance(module, nn.Conv2d) for module in model.modules())


def use_bf16(compute: Compute, model: nn.Module, device: torch.device) -> bool:
    """Say whether to compute in bfloat16: as told, or for `auto` where the hardware multiplies it natively.

    Without such instructions bfloat16 is emulated and many times slower (measured: benchmarks/), and networks of
    linear layers alone gain nothing at the sizes used here.
    """
    if compute.precision != "auto":
        return compute.precision == "bf16"
    if not has_convolutions(model):
        return False
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and has_bf16_instructions()


def has_bf16_instructions() -> bool:
    """Say whether this processor multiplies bfloat16 natively.

    torch's own check of x86 processors asks for AVX-512 alone, with which many have to emulate it.
    """
    if platform.machine().lower() not in ("x86_64", "amd64", "x86"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # new in torch
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def autocast(device: torch.device, *, bf16: bool) -> Callable[[], AbstractContextManager[Any]]:
    """Return a maker of contexts to run forward passes in."""
    if not bf16:
        return nullcontext
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


def place(model: Classifier, device: torch.device, layout: torch.memory_format) -> Classifier:
    """Move a model; torch's types do not know that a module can take a layout."""
    placed: Classifier = model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
    return placed
