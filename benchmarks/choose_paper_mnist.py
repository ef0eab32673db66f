"""Choose what the paper leaves open about split MNIST, and the preset best, on validation images.

usage: python benchmarks/choose_paper_mnist.py DATA_ROOT RUNS [--group paper|released|best] [--collect]

Trains on nine tenths of the training images and evaluates on the last tenth; test images are not used. Every finished
run in the folder RUNS is kept, an interrupted one is resumed. Writes benchmarks/results/choose-paper-mnist.json.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from kept_runs import failure, train
from timing import write

from itaml.config import Compute
from itaml.experiment.result import NAME, Result
from itaml.experiment.run_config import RunConfig, resolve

VALIDATION = 0.1
SCRIPT = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3, "beta": 0.5}  # the authors' for MNIST
FUSED = {"engine": "fused", "augment": "none", **SCRIPT}
CONSTANT: dict[str, Any] = {"schedule": "constant", "milestones": []}
RELEASED = {**SCRIPT, "batch_size": 128, "adapt_steps": 7, **CONSTANT}
BEST = {"lr": 0.05, "batch_size": 128, "beta": 0.5, "weight_decay": 0.0, "warmup": 0.0, "selection": "herding"}
BEST |= {"class_balancing": "tasks", "distill": 0.0, "ema": 0.0, "epochs": 12, "augment": "shift2"}
LOGITS = {"class_balancing": "logits"}

Trial = tuple[str, dict[str, Any], tuple[int, ...]]  # name, overrides, seeds
TRIALS: dict[str, list[Trial]] = {
    "paper": [
        ("batch 128, 6 epochs", {**FUSED, **CONSTANT, "batch_size": 128, "epochs": 6}, (0, 1)),
        ("batch 128, 12 epochs", {**FUSED, **CONSTANT, "batch_size": 128, "epochs": 12}, (0, 1)),
    ],
    "released": [
        ("lr 0.05, clip 1, 10 epochs", {**RELEASED, "lr": 0.05, "clip": 1.0, "epochs": 10}, (0,)),
    ],
    "best": [
        ("6 epochs, shift by 1", {**BEST, "epochs": 6, "augment": "shift"}, (0,)),
        ("12 epochs, shift by 2", BEST, (0,)),
        ("6 epochs, shift by 2, logits, distill 1", {**BEST, **LOGITS, "distill": 1.0, "epochs": 6}, (0,)),
    ],
}


def configuration(group: str, overrides: Mapping[str, Any], seed: int, *, validation: float = VALIDATION) -> RunConfig:
    """Return the run of one trial: a preset of iTAML with some settings changed."""
    return resolve(
        "mnist-5",
        preset=group,
        seed=seed,
        overrides=overrides,
        validation=validation,
        compute=Compute(precision="fp32"),
    )


def folder_of(config: RunConfig, runs: Path) -> Path:
    """Return the folder of a trial, whose name depends on its resolved settings and not on what the preset is today."""
    return runs / hashlib.sha256(config.model_dump_json(exclude={"preset"}).encode()).hexdigest()[:16]


def numbers(result: Result) -> dict[str, Any]:
    """Return what is compared, as fractions after the last task; class accuracy by task shows which tasks win."""
    last = result.tasks[-1]
    return {
        "seed": result.seed,
        **{f"class@{p}": at.classes for p, at in result.final.continuum.items()},
        **{f"task@{p}": at.task for p, at in result.final.continuum.items()},
        "task_aware": result.final.task_aware,
        "class_by_task@20": last.class_by_task.get(20),
        "after_each_task": {str(p): [row.continuum[p].classes for row in result.tasks] for p in result.final.continuum},
    }


def found(config: RunConfig, runs: Path) -> dict[str, Any] | None:
    """Return the numbers of a finished trial."""
    folder = folder_of(config, runs)
    failed = failure(folder)
    if failed is not None:
        return {"seed": config.seed, "failed": failed}
    return numbers(Result.load(folder)) if (folder / NAME).exists() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--group", choices=TRIALS, action="append")
    parser.add_argument("--collect", action="store_true", help="train nothing, write the numbers of the finished runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for group in () if options.collect else options.group or TRIALS:
        for _, overrides, seeds in TRIALS[group]:
            for seed in seeds:
                config = configuration(group, overrides, seed)
                train(config, folder_of(config, options.runs), options.data_root)
    rows = []
    for group, trials in TRIALS.items():
        for name, overrides, seeds in trials:
            each = [found(configuration(group, overrides, seed), options.runs) for seed in seeds]
            known = [one for one in each if one is not None]
            if known:
                rows.append({"preset": group, "trial": name, "overrides": overrides, "seeds": known})
    write("choose-paper-mnist", {"evaluated_on": f"{VALIDATION:g} of the training data", "trials": rows})


if __name__ == "__main__":
    main()
