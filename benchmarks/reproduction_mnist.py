"""What decides whether the paper's split MNIST is reproduced: one setting changed at a time, on test images.

usage: python benchmarks/reproduction_mnist.py DATA_ROOT RUNS [--seeds 0,1]

The base is the preset `paper` with six epochs per task (`BASE`), every other row changes it in one respect. Nothing is
chosen here; the choice was made on validation images (choose_paper_mnist.py). Finished runs in RUNS are kept.
Writes benchmarks/results/reproduction-mnist.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from choose_paper_mnist import CONSTANT, FUSED, configuration, folder_of, found
from kept_runs import train
from safetensors import safe_open
from timing import write

from itaml.experiment.result import NAME
from itaml.experiment.run_config import RunConfig

BASE: dict[str, Any] = {**FUSED, **CONSTANT, "batch_size": 128, "epochs": 6}
CLIPPED = {"lr": 0.05, "clip": 0.5}  # update=released diverges without
RADAM = {"optimizer": "radam", "lr": 0.01, "momentum": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "the authors' settings": {},
    "no weight decay": {"weight_decay": 0.0},
    "lr 0.05": {"lr": 0.05},
    "negatives=seen": {"negatives": "seen"},
    "sampling=balanced": {"sampling": "balanced"},
    "beta 2": {"beta": 2.0},
    "beta 1": {"beta": 1.0},
    "beta 0": {"beta": 0.0},
    "engine=loop": {"engine": "loop"},
    "RAdam 0.01": RADAM,
    "RAdam 0.01, no weight decay": {**RADAM, "weight_decay": 0.0},
    "RAdam 0.001": {**RADAM, "lr": 0.001},
    "lr 0.05, clip 0.5": CLIPPED,
    "lr 0.05, clip 0.5, update=released": {**CLIPPED, "update": "released", "engine": "loop"},
}


def head_norms(config: RunConfig, runs: Path) -> list[float] | None:
    """Return the mean norm of the head's rows of each task, oldest first, from the last checkpoint of a run."""
    folder = folder_of(config, runs)
    if not (folder / NAME).exists():
        return None
    with safe_open(folder / "checkpoint.safetensors", "pt") as file:
        rows = file.get_tensor("learner/model/head.weight").norm(dim=1)  # (classes,)
    return [round(float(rows[i : i + 2].mean()), 4) for i in range(0, len(rows), 2)]


def rows(seeds: list[int], runs: Path) -> list[dict[str, Any]]:
    """Return the numbers of all finished runs, by variant."""
    made = []
    for name, change in VARIANTS.items():
        each = []
        for seed in seeds:
            config = configuration("paper", BASE | change, seed, validation=0.0)
            one = found(config, runs)
            if one is not None:
                each.append({**one, "head_norms": head_norms(config, runs)})
        if each:
            made.append({"variant": name, "overrides": change, "seeds": each})
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", default="0,1")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [int(word) for word in options.seeds.split(",")]
    for seed in seeds:
        for change in VARIANTS.values():
            config = configuration("paper", BASE | change, seed, validation=0.0)
            train(config, folder_of(config, options.runs), options.data_root)
            write("reproduction-mnist", {"base": BASE, "rows": rows(seeds, options.runs)})


if __name__ == "__main__":
    main()
