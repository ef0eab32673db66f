"""`result.json`: the numbers of a run, each under its protocol (see `metrics.evaluate`)."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import torch

from itaml._version import __version__
from itaml.data.stream import TaskStream
from itaml.hardware.machine import cores, peak_memory_mb
from itaml.inference.bound import task_accuracy
from itaml.metrics.evaluate import Evaluation
from itaml.metrics.scores import average_incremental, forgetting, square
from itaml.run.config import RunConfig

FORMAT = 1
CURVE = (1, 2, 5, 10, 20, 50, 100)  # continuum sizes of the final curve


def task_row(index: int, stream: TaskStream, evaluation: Evaluation, *, epochs: int, seconds: float) -> dict[str, Any]:
    """Return the entry of one task: accuracies on everything seen so far, after learning it."""
    peak = peak_memory_mb()
    return {
        "index": index,
        "classes": [stream.class_names[c] for c in stream.splits[index]],
        "epochs": epochs,
        "train_seconds": round(seconds, 3),
        "peak_memory_mb": None if peak is None else round(peak, 1),
        "continuum": continuum(evaluation),
        "task_aware": evaluation.task_aware,
        "no_update": evaluation.no_update,
        "class_by_task": {str(p): at.by_task for p, at in evaluation.at.items()},
    }


def continuum(evaluation: Evaluation) -> dict[str, dict[str, float | None]]:
    """Return class and task accuracy by continuum size."""
    return {str(p): {"class": at.classes, "task": at.tasks} for p, at in evaluation.at.items()}


def assemble(config: RunConfig, stream: TaskStream, rows: list[dict[str, Any]], last: Evaluation) -> dict[str, Any]:
    """Return the whole result of a finished run; `last` is the final evaluation over the sizes of `CURVE` too."""
    ps = [str(p) for p in config.p]
    matrices = {p: square([row["class_by_task"][p] for row in rows]) for p in ps}
    final = {
        **{key: rows[-1][key] for key in ("continuum", "task_aware", "no_update")},
        "average_incremental": {p: average_incremental([row["continuum"][p]["class"] for row in rows]) for p in ps},
        "forgetting": forgetting(matrices[ps[0]]),
        "forgetting_at": {p: forgetting(matrix) for p, matrix in matrices.items()},
        "curve": curve(last, stream),
        "per_class": {stream.class_names[c]: value for c, value in last.by_class.items()},
        "task_confusion": last.task_confusion,
    }
    return {
        "format": FORMAT,
        "benchmark": config.benchmark,
        "method": config.method,
        "preset": config.preset,
        "seed": config.seed,
        "evaluated_on": f"{config.validation:g} of the training data" if config.validation else "test data",
        "config": config.model_dump(mode="json"),
        "environment": environment(),
        "tasks": rows,
        "final": final,
        "accuracy_matrix": matrices[ps[0]],
        "accuracy_matrices": matrices,
    }


def curve(last: Evaluation, stream: TaskStream) -> dict[str, dict[str, float | None]]:
    """Return accuracies by p, beside what Algorithm 4 predicts from the class accuracy at the smallest p."""
    single = last.at[min(last.at)].classes
    sizes = [len(classes) for classes in stream.splits]
    rows = {}
    for p, at in sorted(last.at.items()):
        rows[str(p)] = {"class": at.classes, "task": at.tasks, "bound": task_accuracy(p, accuracy=single, sizes=sizes)}
    return rows


def environment() -> dict[str, Any]:
    """Return the versions and the machine that numbers depend on."""
    packages = ("torch", "numpy", "scipy", "scikit-learn", "pillow")
    return {
        "itaml": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": cores(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
