"""Tiny pretrained backbones in files, written by the test itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


class Mosaic(nn.Module):
    """Random features of the mean colours of a grid of cells."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.linear = nn.Linear(12, features)

    def forward(self, images: Tensor) -> Tensor:
        return self.linear(self.pool(images).flatten(1)).relu()  # type: ignore[no-any-return]


def write_backbone(path: Path, *, size: int, features: int = 12, seed: int = 0, **described: Any) -> str:
    """Write a program of torch.export with its description; return the name of the backbone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Mosaic(features).eval()
    program = torch.export.export(
        network, (torch.zeros(2, 3, size, size),), dynamic_shapes=({0: torch.export.Dim("n", min=1)},)
    )
    torch.export.save(program, path)
    description(path).write_text(json.dumps({"size": size, "mean": MEAN, "std": STD, **described}))
    return f"file:{path}"


def copy_backbone(source: Path, target: Path, **described: Any) -> str:
    """Write the same program with another description, which is faster than to export one."""
    shutil.copy(source, target)
    description(target).write_text(json.dumps(json.loads(description(source).read_text()) | described))
    return f"file:{target}"


def description(path: Path) -> Path:
    return path.with_name(path.name + ".json")
