"""Which device, number format and how many threads to use."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from itaml.config import Compute
from itaml.errors import SettingsError
from itaml.hardware.machine import cpu_flags
from itaml.hardware.probe import bf16_probe
from itaml.models.classifier import Classifier


def pick_device(compute: Compute) -> torch.device:
    """Return the device asked for, or the fastest there is for `auto`.

    Raises:
        SettingsError: the device is not there.
    """
    there = devices()
    if compute.device == "auto":
        return torch.device(there[0])
    if compute.device not in there:
        raise SettingsError(f"device {compute.device} is not available on this machine")
    return torch.device(compute.device)


def devices() -> tuple[str, ...]:
    """Return the devices that torch can use here, the fastest first."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return tuple(name for name, available in there.items() if available)


def has_convolutions(model: nn.Module) -> bool:
    """Return whether a network convolves, which is where formats and memory layout matter."""
    return any(isinstance(module, nn.Conv2d) for module in model.modules())


@dataclass(frozen=True)
class NumberFormat:
    """Whether products are computed in bfloat16, and why."""

    bf16: bool
    why: str


def choose_format(compute: Compute, device: torch.device, *, convolutions: bool) -> NumberFormat:
    """Choose fp32 or bfloat16: as set, or for `auto` what is faster.

    On a CPU `auto` is fp32 unless a probe on this machine found bfloat16 to be faster (see `itaml.hardware.probe`),
    and networks of linear layers alone gain nothing at the sizes used here.

    Args:
        compute: what was asked for.
        device: where it is computed.
        convolutions: whether the network convolves.

    Raises:
        SettingsError: bf16 was asked for, and training in it crashes on this CPU.
    """
    if compute.precision == "bf16":
        check_compute(compute)
    if compute.precision != "auto":
        return NumberFormat(compute.precision == "bf16", f"precision is {compute.precision}")
    if not convolutions:
        return NumberFormat(False, "networks without convolutions gain nothing from bf16")
    if device.type == "cuda":
        native = bool(torch.cuda.is_bf16_supported())
        return NumberFormat(native, f"this GPU {'has' if native else 'does not have'} bf16 instructions")
    if device.type != "cpu":
        return NumberFormat(False, f"bf16 is not used on {device.type}")
    if not needs_probe(device):
        return NumberFormat(False, "this CPU has no bf16 instructions that torch can use")
    probe = bf16_probe()
    crashed = "bf16 does not work on this machine: " if probe.outcome == "crashed" else ""
    return NumberFormat(probe.outcome == "fast", crashed + probe.reason)


def needs_probe(device: torch.device) -> bool:
    """Return whether only a probe can tell if bfloat16 is faster than fp32 there."""
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and has_bf16_instructions()


def check_compute(compute: Compute) -> None:
    """Refuse what this machine cannot do, before anything is read or written.

    Raises:
        SettingsError: the device is not there, or training in bf16 crashes on this CPU.
    """
    if pick_device(compute).type == "cpu" and compute.precision == "bf16":
        probe = bf16_probe()
        if probe.outcome == "crashed":
            raise SettingsError(
                f"precision bf16 does not work on this machine: {probe.reason}; use precision fp32 or auto"
            )


def use_bf16(compute: Compute, model: nn.Module, device: torch.device) -> bool:
    """Return whether to compute a network in bfloat16 (see `choose_format`)."""
    return choose_format(compute, device, convolutions=has_convolutions(model)).bf16


def has_bf16_instructions() -> bool:
    """Return whether this CPU multiplies bfloat16 natively.

    torch's own check of x86 CPUs asks for AVX-512 alone, with which many have to emulate it, many times slower.
    """
    if platform.machine().lower() not in ("x86_64", "amd64", "x86"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return bool({"avx512_bf16", "amx_bf16"} & cpu_features())


def cpu_features() -> frozenset[str]:
    """Return the instruction sets of the CPU, from torch or, with an older one, from the operating system."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # older versions have no such function
    if ask is None:
        return cpu_flags()
    capabilities: Mapping[str, Any] = ask()
    return frozenset(name for name, there in capabilities.items() if there is True)


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Compute with so many CPU threads inside the block; None leaves them as they are.

    Raises:
        SettingsError: the number is below 1.
    """
    if threads is None:
        yield
        return
    check_threads(threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that is not one.

    Raises:
        SettingsError: the number is below 1.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise SettingsError(f"threads must be a whole number >= 1 (got {threads!r})")


def autocast(device: torch.device, *, bf16: bool) -> Callable[[], AbstractContextManager[Any]]:
    """Return a maker of contexts to run forward passes in."""
    if not bf16:
        return nullcontext
    return lambda: torch.autocast(device.type, dtype=torch.bfloat16)


def place(model: Classifier, device: torch.device, layout: torch.memory_format) -> Classifier:
    """Move a model; torch's types do not know that a module can take a layout."""
    placed: Classifier = model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
    return placed
