"""`PathNetwork`: a network with several parallel modules per layer, of which paths choose some.

A layer's output is the sum of the outputs of its modules that any path has taken so far. Where the modules are residual
blocks, their residuals are summed, and the shortcut of the first module is added once: it trains with the first path.
With a shortcut in every module, the output of each layer would grow by a factor with the number of modules. Modules
that an earlier path took are frozen, batch-norm statistics included; modules that no path took are not computed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Protocol, Self, cast, runtime_checkable

import torch
from torch import Tensor, nn

from itaml.errors import SettingsError
from itaml.models.reset import reset_weights


@runtime_checkable
class ResidualBlock(Protocol):
    """A module whose output is made of a residual and a shortcut, such as `BasicBlock` of ResNet."""

    shortcut: nn.Module

    def residual(self, x: Tensor) -> Tensor:
        """Return what is added to the shortcut."""
        ...

    def merge(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return the output for a residual."""
        ...


class PathNetwork(nn.Module):
    """Parallel copies of the layers of a backbone.

    Args:
        backbone: a sequence. A layer with a matrix of weights starts a new stage, and what follows it up to the next,
            such as its activation, belongs to the same stage; each stage becomes a layer of parallel modules.
        modules: M, how many modules a layer has. The first is the backbone's own, the others have new initial weights.

    Raises:
        SettingsError: the backbone is not a sequence of layers.
    """

    used: Tensor  # (layers, modules) on the path of inference
    open: Tensor  # (layers, modules) trained now

    def __init__(self, backbone: nn.Module, *, modules: int) -> None:
        super().__init__()
        if not isinstance(backbone, nn.Sequential):
            raise SettingsError(f"paths need a backbone that is a sequence of layers, not a {type(backbone).__name__}")
        stages: list[list[nn.Module]] = [[]]
        for layer in backbone:
            if any(value.dim() > 1 for value in layer.parameters()):
                stages.append([])
            stages[-1].append(layer)
        self.prefix = nn.Sequential(*stages[0])
        self.layers = nn.ModuleList(nn.ModuleList(_parallel(nn.Sequential(*stage), modules)) for stage in stages[1:])
        shape = len(self.layers), modules
        self.register_buffer("used", torch.zeros(shape, dtype=torch.bool))
        self.register_buffer("open", torch.zeros(shape, dtype=torch.bool))

    def take(self, path: Sequence[int]) -> None:
        """Add a path, one module per layer; those of its modules that are new are trained, and all others frozen."""
        chosen = torch.zeros_like(self.used)
        chosen[torch.arange(len(path)), torch.as_tensor(path)] = True
        self.open.copy_(chosen & ~self.used)
        self.used.copy_(chosen | self.used)
        self.train(self.training)

    def draw(self, generator: torch.Generator) -> list[int]:
        """Draw a path at random that has at least one new module; there must be one left."""
        assert not bool(self.used.all()), "every module is used"
        layers, modules = self.used.shape
        while True:
            path = torch.randint(0, modules, (layers,), generator=generator)
            if not bool(self.used.cpu()[torch.arange(layers), path].all()):
                return [int(module) for module in path]

    def trained(self) -> list[nn.Parameter]:
        """Return the weights of the modules that are trained, and let no others have gradients."""
        chosen: list[nn.Parameter] = []
        for module, is_open in self._modules_with(self.open):
            module.requires_grad_(is_open).zero_grad()  # a gradient left from an earlier task would count in clipping
            chosen += module.parameters() if is_open else []
        return chosen

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of the inference path."""
        values: Tensor = self.prefix(images)
        for row, layer in zip(self.used.tolist(), self.layers, strict=True):
            assert isinstance(layer, nn.ModuleList)
            modules = [module for module, is_used in zip(layer, row, strict=True) if is_used]
            values = _output([cast(nn.Sequential, module) for module in modules or [layer[0]]], values)
        return values

    def train(self, mode: bool = True) -> Self:
        """Set the mode; frozen modules stay in evaluation mode, so that their statistics do not move."""
        super().train(mode)
        for module, is_open in self._modules_with(self.open):
            module.train(mode and is_open)
        return self

    def _modules_with(self, mask: Tensor) -> Iterator[tuple[nn.Module, bool]]:
        for row, layer in zip(mask.tolist(), self.layers, strict=True):
            assert isinstance(layer, nn.ModuleList)
            yield from zip(layer, row, strict=True)


def _output(modules: list[nn.Sequential], values: Tensor) -> Tensor:
    """Return the output of a layer; the first of its modules is always on the path."""
    first = modules[0][0]
    if not isinstance(first, ResidualBlock):
        return _sum([module(values) for module in modules])
    values = first.merge(values, _sum([cast(ResidualBlock, module[0]).residual(values) for module in modules]))
    for after in list(modules[0])[1:]:
        values = after(values)
    return values


def _sum(outputs: list[Tensor]) -> Tensor:
    return torch.stack(outputs).sum(0) if len(outputs) > 1 else outputs[0]


def _parallel(stage: nn.Sequential, count: int) -> list[nn.Sequential]:
    copies = [stage, *(copy.deepcopy(stage) for _ in range(count - 1))]
    for module in copies[1:]:
        reset_weights(module)
        if isinstance(module[0], ResidualBlock):
            module[0].shortcut = nn.Identity()  # not used
    return copies
