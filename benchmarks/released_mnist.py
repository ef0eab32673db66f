"""How far `released` comes on split MNIST with the authors' own settings before its loss becomes NaN.

usage: python benchmarks/released_mnist.py DATA_ROOT [--seeds 0,1,2,3,4]

Writes benchmarks/results/released-mnist.json; seeds that are in it and not asked for stay.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, write

from itaml.errors import TrainingError
from itaml.events import Event
from itaml.experiment.event_log import TaskDone
from itaml.experiment.run_config import resolve
from itaml.experiment.runner import run_experiment

NAME = "released-mnist"
AUTHORS: dict[str, Any] = {"lr": 0.1, "clip": 0.0, "epochs": 20, "batch_size": 256}
AUTHORS |= {"schedule": "step", "milestones": [5, 10, 15], "lr_decay": 0.5}


def run(seed: int, data_root: Path) -> dict[str, Any]:
    """Return a seed's accuracies after each task that was finished, and how the run ended."""
    tasks: list[dict[str, Any]] = []

    def keep(event: Event) -> None:
        if isinstance(event, TaskDone):
            tasks.append(event.row.to_dict())

    with tempfile.TemporaryDirectory() as folder:
        try:
            config = resolve("mnist-5", preset="released", seed=seed, overrides=AUTHORS)
            run_experiment(config, Path(folder) / "run", data_root=data_root, callbacks=[keep])
        except TrainingError as error:
            return {"seed": seed, "ended": str(error), "tasks": tasks}
    return {"seed": seed, "ended": "finished", "tasks": tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root", type=Path)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = RESULTS / f"{NAME}.json"
    kept = {entry["seed"]: entry for entry in json.loads(file.read_text(encoding="utf-8"))["runs"]}
    for seed in map(int, options.seeds.split(",")):
        kept[seed] = run(seed, options.data_root)
    settings = [f"--set '{key}={value}'" for key, value in AUTHORS.items()]
    command = " ".join(["itaml run mnist-5 --preset released --seed SEED", *settings])
    write(NAME, {"command": command, "runs": [kept[seed] for seed in sorted(kept)]})


if __name__ == "__main__":
    main()
