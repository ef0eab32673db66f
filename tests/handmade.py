"""Result files made by hand, for tests of tables and pages: numbers that can be checked in the head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from itaml.experiment.result import Final, TaskRow
from itaml.experiment.sweep.job import KEPT, Job


def handmade(
    *,
    method: str = "itaml",
    seed: int = 0,
    last: float = 0.9,
    benchmark: str = "digits",
    names: tuple[tuple[str, ...], ...] = (("a", "b"), ("c", "d")),
    **config: Any,
) -> dict[str, Any]:
    """Return a result of two tasks: 1.0 after the first, then `last` at p = 1 and a tenth more at p = 20."""
    p20 = round(min(1.0, last + 0.1), 6)
    first = {"1": {"class": 1.0, "task": 1.0}, "20": {"class": 1.0, "task": 1.0}}
    then = {"1": {"class": last, "task": last}, "20": {"class": p20, "task": 1.0}}
    rows = [
        {
            "index": index,
            "classes": list(classes),
            "train_seconds": 2.0 + index,
            "peak_memory_mb": 400.0,
            "continuum": continuum,
            "task_aware": 0.98,
            "no_update": last,
        }
        for index, (classes, continuum) in enumerate(zip(names, (first, then), strict=True))
    ]
    matrix = [[1.0, None], [0.7, last]]
    settings = {"backbone": "mlp", "memory": 200, "epochs": 20, "lr": 0.1}
    return {
        "format": 1,
        "benchmark": benchmark,
        "method": method,
        "preset": "best",
        "seed": seed,
        "evaluated_on": "test data",
        "config": {"benchmark": benchmark, "method": method, "seed": seed, "p": [1, 20], "settings": settings} | config,
        "environment": {"itaml": "0.1.0", "torch": "2.13.0"},
        "tasks": rows,
        "final": {
            "continuum": then,
            "task_aware": 0.98,
            "no_update": last,
            "average_incremental": {"1": (1 + last) / 2, "20": (1 + p20) / 2},
            "forgetting": 0.3,
            "curve": {
                "1": {"class": last, "task": last, "bound": 0.9},
                "10": {"class": p20, "task": 1.0, "bound": 0.99},
            },
            "per_class": {name: 0.8 for classes in names for name in classes},
            "task_confusion": [[8, 2], [1, 9]],
        },
        "accuracy_matrix": matrix,
        "accuracy_matrices": {"1": matrix, "20": [[1.0, None], [1.0, p20]]},
    }


def task_row(**changes: Any) -> TaskRow:
    """Return the first row of a hand-made result, with changes."""
    return TaskRow.model_validate(handmade()["tasks"][0] | changes)


def final(**changes: Any) -> Final:
    """Return the final numbers of a hand-made result, with changes."""
    return Final.model_validate(handmade()["final"] | changes)


def write_run(folder: Path, **values: Any) -> Path:
    """Write a hand-made result as a finished run and return its folder."""
    result = handmade(**values)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(result["config"]), encoding="utf-8")
    return folder


def finish(job: Job, *, seconds: float = 2.0, **values: Any) -> None:
    """Write a hand-made result where a planned run is looked for."""
    config = job.config.model_dump(mode="json")
    result = handmade(method=job.config.method, seed=job.config.seed, benchmark=job.config.benchmark, **values)
    for row in result["tasks"]:
        row["train_seconds"] = seconds
    job.folder.mkdir(parents=True)
    (job.folder / "result.json").write_text(json.dumps(result | {"config": config}), encoding="utf-8")
    (job.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    job.state = KEPT
