"""Sentences about runs: the protocol, what each number means, and the command that repeats a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from itaml.config import DEFAULT_PRESET
from itaml.data.benchmarks import benchmark
from itaml.errors import ItamlError
from itaml.experiment.result import Result
from itaml.experiment.run_config import completed, resolve
from itaml.metrics.metric_registry import metrics


def meanings(p: int) -> list[tuple[str, str]]:
    """Return the names of all metrics and what they mean."""
    notes = {"higher": "", "lower": "; lower is better", "neither": ""}
    return [(metric.name, f"{metric.meaning}{notes[metric.direction]}") for metric in metrics({1, p})]


def protocol(result: Result) -> str:
    """Describe how a run was measured."""
    sizes = [len(row.classes) for row in result.tasks]
    each = f"{sizes[0]} classes each" if len(set(sizes)) == 1 else f"{', '.join(map(str, sizes))} classes"
    count = f"{sum(sizes)} classes in {len(sizes)} {'task' if len(sizes) == 1 else 'tasks'} of {each}"
    order = result.config.get("seeds", {}).get("order")
    continuum_sizes = ", ".join(map(str, sorted(result.final.continuum)))
    return (
        f"{count}, in {'the order of the data set' if order is None else 'an order drawn with a seed'}. "
        f"After each task the learner is evaluated on all classes seen so far, on {result.evaluated_on}; "
        "it never sees test data, nor old data beyond its memory. "
        f"Test images arrive in continua of p = {continuum_sizes}, all of one task that the learner is not given."
    )


def setup(result: Result) -> str:
    """Describe what was trained: backbone, memory, epochs."""
    settings: dict[str, Any] = result.config.get("settings", {})
    known = {
        "backbone": settings.get("backbone"),
        "memory": memory_text(settings),
        "epochs per task": settings.get("epochs"),
        "optimizer": settings.get("optimizer"),
    }
    return "; ".join(f"{name} {value}" if name != "memory" else str(value) for name, value in known.items() if value)


def memory_text(settings: Mapping[str, Any]) -> str:
    """Say how large the memory is: in images or in bytes, which are different protocols."""
    if settings.get("memory_bytes"):
        return f"{settings['memory_bytes']:,} bytes of exemplars (WebP)"
    return f"{settings['memory']:,} exemplars" if settings.get("memory") else "no exemplars"


def command(result: Result) -> str:
    """Return the command that repeats a run, with every setting that its preset does not give today."""
    config = result.config
    parts = ["itaml", "run", result.benchmark, "--method", result.method]
    if result.preset != DEFAULT_PRESET:
        parts += ["--preset", result.preset]
    if config.get("recipe"):
        parts += ["--recipe", config["recipe"]]
    parts += ["--seed", str(result.seed)]
    for key, value in _overrides(result).items():
        parts += ["--set", f"{key}={_value(value)}"]
    seeds = config.get("seeds", {})
    parts += [
        part
        for name, value in seeds.items()
        if name != "order" and value not in (None, result.seed)
        for part in ("--set", f"seeds.{name}={value}")
    ]
    options = {
        "--order-seed": seeds.get("order"),
        "--split": ",".join(map(str, config["split"])) if config.get("split") else None,
        "-p": _continuum(result),
        "--validation": config.get("validation") or None,
        "--image-size": config.get("image_size"),
        "--on-bad-image": config.get("on_bad_image") if config.get("on_bad_image") == "fail" else None,
    }
    compute = config.get("compute", {})
    options |= {f"--{name}": value for name, value in compute.items() if name != "compile" and value != "auto"}
    for name, value in options.items():
        parts += [name, str(value)] if value is not None else []
    parts += ["--compile"] if compute.get("compile") else []
    return shlex.join(parts)


def _continuum(result: Result) -> int | None:
    """Return the size of continua, unless it is that of the benchmark."""
    size = max(result.config.get("p") or [0])
    try:
        return None if size in (0, benchmark(result.benchmark).p) else size
    except ItamlError:
        return size or None


def _overrides(result: Result) -> dict[str, Any]:
    settings: dict[str, Any] = completed(result.config | {"method": result.method})["settings"]
    try:
        today = resolve(
            result.benchmark,
            method=result.method,
            preset=result.preset,
            recipe=result.config.get("recipe"),
            seed=result.seed,
        ).settings
    except ItamlError:  # a method or preset that is not installed here: name every setting
        return settings
    return {key: value for key, value in settings.items() if key not in today or today[key] != value}


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
