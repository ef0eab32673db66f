"""Ratios of times measured in one run: warmed up, interleaved, with their spread."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from itaml.data.images import ImageSet
from itaml.experiment.environment import environment

Ratios = dict[str, dict[str, Any]]
RESULTS = Path(__file__).parent / "results"


def random_set(count: int, shape: tuple[int, int, int], classes: int) -> ImageSet:
    """Return images of noise, with classes in turn."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator)
    return ImageSet.from_arrays(pixels, torch.arange(count) % classes)


def interleaved(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 3
) -> dict[str, list[float]]:
    """Time each contestant once per round, in turn, so that whatever else the machine does hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warmup + rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            call()
            if number >= warmup:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: Mapping[str, list[float]], over: str, under: str) -> dict[str, Any]:
    """Return the median of the rounds' ratios, its quartiles, and the ratio of the fastest rounds."""
    each = [a / b for a, b in zip(times[over], times[under], strict=True)]
    low, middle, high = statistics.quantiles(each, n=4)
    return {
        "median": round(middle, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "of_best": round(min(times[over]) / min(times[under]), 4),
        "rounds": len(each),
    }


def write(name: str, value: dict[str, Any]) -> Path:
    """Write a result with the versions and the machine it was measured with."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **value}, indent=1) + "\n", encoding="utf-8")
    return path
