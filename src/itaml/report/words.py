"""What was run, in words: the protocol, what each number means, and the command that repeats a run."""

from __future__ import annotations

import json
import shlex
from typing import Any

from itaml.config import DEFAULT_PRESET
from itaml.errors import ItamlError
from itaml.report.result import Result
from itaml.run.config import resolve

MEANINGS = (
    ("class, p = 1", "Share of test pictures whose class is right, each picture alone, nothing known about it."),
    (
        "class, p",
        "The same when p pictures of one unknown task come together, a continuum, and its task is found first.",
    ),
    ("task, p", "Share of pictures in a continuum of p whose task is found."),
    ("task-aware", "Class accuracy when the task is told."),
    ("no update", "Class accuracy of the generic model alone: the largest response of all classes, no adaptation."),
    ("average", "Class accuracy on everything seen so far, mean over the ends of all tasks."),
    ("forgetting", "What old tasks lost since their best, mean over old tasks, p = 1; less is better."),
)


def protocol(result: Result) -> str:
    """Say how a run was measured."""
    sizes = [len(row.classes) for row in result.tasks]
    each = f"{sizes[0]} classes each" if len(set(sizes)) == 1 else f"{', '.join(map(str, sizes))} classes"
    count = f"{sum(sizes)} classes in {len(sizes)} {'task' if len(sizes) == 1 else 'tasks'} of {each}"
    order = result.config.get("seeds", {}).get("order")
    words = [f"{count}, in {'the data set’s own order' if order is None else 'an order drawn with a seed'}."]
    words.append(
        "After each task the learner is tested on all classes seen so far, "
        f"on {result.evaluated_on}; it never sees test data or old data beyond its memory."
    )
    ps = ", ".join(map(str, sorted(result.final.continuum)))
    words.append(f"Test pictures come in continua of p = {ps}, all of one task that the learner is not told.")
    return " ".join(words)


def setup(result: Result) -> str:
    """Say what learned: network, memory, passes over the data."""
    settings: dict[str, Any] = result.config.get("settings", {})
    known = {
        "network": settings.get("backbone"),
        "memory": f"{settings['memory']:,} exemplars" if settings.get("memory") else "no exemplars",
        "epochs a task": settings.get("epochs"),
        "optimiser": settings.get("optimizer"),
    }
    return "; ".join(f"{name} {value}" if name != "memory" else str(value) for name, value in known.items() if value)


def command(result: Result) -> str:
    """Return the command that repeats a run, with every setting that its preset does not give today."""
    config = result.config
    words = ["itaml", "run", result.benchmark, "--method", result.method]
    if result.preset != DEFAULT_PRESET:
        words += ["--preset", result.preset]
    words += ["--seed", str(result.seed)]
    for key, value in _overrides(result).items():
        words += ["--set", f"{key}={_word(value)}"]
    seeds = config.get("seeds", {})
    words += [
        word
        for name, value in seeds.items()
        if name != "order" and value not in (None, result.seed)
        for word in ("--set", f"seeds.{name}={value}")
    ]
    options = {
        "--order-seed": seeds.get("order"),
        "--split": ",".join(map(str, config["split"])) if config.get("split") else None,
        "-p": max(config["p"]) if config.get("p") else None,
        "--validation": config.get("validation") or None,
        "--image-size": config.get("image_size"),
        "--on-bad-image": config.get("on_bad_image") if config.get("on_bad_image") == "fail" else None,
    }
    compute = config.get("compute", {})
    options |= {f"--{name}": value for name, value in compute.items() if name != "compile" and value != "auto"}
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    words += ["--compile"] if compute.get("compile") else []
    return shlex.join(words)


def _overrides(result: Result) -> dict[str, Any]:
    settings: dict[str, Any] = result.config.get("settings", {})
    try:
        today = resolve(result.benchmark, method=result.method, preset=result.preset, seed=result.seed).settings
    except ItamlError:  # a method or preset that is not installed here: name every setting
        return settings
    return {key: value for key, value in settings.items() if key not in today or today[key] != value}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
