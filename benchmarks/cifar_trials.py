"""Choose the recipe for CIFAR-100 on small trials: 16 x 16 images, 400 training images a class, three tasks of ten.

usage: python benchmarks/cifar_trials.py DATA_ROOT [TRIAL ...]

Trains on 400 training images of each class, evaluates on its 100 others, and never reads the test images. The memory
of 600 leaves 20 exemplars a class after the third task, as 2,000 do after the tenth of the whole benchmark. Each
finished trial is written to benchmarks/results/cifar-trials.json at once; a trial that is there is not repeated.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import replace
from typing import Any

import torch
from timing import RESULTS, write

from itaml.config import Compute
from itaml.data.augmentations import AUGMENTATIONS, crop, flip
from itaml.data.images import ImageSet
from itaml.data.progressive_resize import downscale
from itaml.data.stream import TaskStream
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.metrics.evaluate import evaluate
from itaml.storage import State

NAME = "cifar-trials"
SIDE, TASKS, MEMORY, VALIDATION = 16, 3, 600, 0.2
BASE: dict[str, Any] = {
    "memory": MEMORY,
    "augment": "crop2-flip",
    "epochs": 15,
    "first_epochs": 30,
    "batch_size": 32,
    "progressive_resize_from": 1.0,
}
ASKED = {"cache_teacher_logits": False}  # the teacher sees the augmented image
STRONG = {"strong_augment": "trivial-cutout", "strong_until": 0.8}
TRIALS: dict[str, dict[str, Any]] = {
    "preset of 0.1": {},
    "teacher on augmented images": ASKED,
    "strong": STRONG,
    "strong on all images": {**STRONG, "strong_share": 1.0},
    "strong, teacher on augmented images": {**STRONG, **ASKED},
    "strong on exemplars only": {**STRONG, "strong_share": 0.0},
    "distillation 3": {"distill": 3.0},
    "strong on exemplars only, distillation 3": {**STRONG, "strong_share": 0.0, "distill": 3.0},
    "strong on exemplars only, distillation 3, balance 1.3": {
        **STRONG,
        "strong_share": 0.0,
        "distill": 3.0,
        "balance_strength": 1.3,
    },
    "CutMix": {**ASKED, "rehearsal_cutmix": 0.5, "strong_until": 0.8},
    "balance 1.3": {"balance_strength": 1.3},
    "ema": {"ema": 0.998},
}


def small_stream(data_root: str) -> TaskStream:
    """Return the first tasks of CIFAR-100 at half size, tested on training images that are held out."""
    config = resolve("cifar100-10", seed=0, validation=VALIDATION)
    stream = make_stream(config, data_root=data_root)[:TASKS]
    small = replace(stream.dataset, train=_shrunk(stream.dataset.train), test=_shrunk(stream.dataset.test))
    return replace(stream, dataset=small)


def _shrunk(images: ImageSet) -> ImageSet:
    pixels, labels = images.load()
    small = (downscale(pixels, height=SIDE, width=SIDE) * 255).round().to(torch.uint8)
    return ImageSet.from_arrays(small, labels)


def run(stream: TaskStream, overrides: dict[str, Any], first: dict[str, State]) -> dict[str, Any]:
    """Train one trial and return its accuracies after every task.

    Args:
        stream: the tasks.
        overrides: settings that differ from `BASE`.
        first: states after the first task, for trials that train it equally; a new one is added.
    """
    config = resolve("cifar100-10", seed=0, overrides={**BASE, **overrides}, compute=Compute(precision="auto"))
    learner = make_learner(config, stream)
    equal = json.dumps({name: value for name, value in overrides.items() if _changes_first_task(name, overrides)})
    rows, start = [], time.perf_counter()
    for task in stream:
        if task.index == 0 and equal in first:
            learner.load_state_dict(first[equal])
        else:
            learner.learn(task)
        if task.index == 0:
            first[equal] = copy.deepcopy(learner.state_dict())
        found = evaluate(learner, stream, seen=task.index + 1, continuum_sizes=(1, 20), seed=0)
        rows.append({"class@1": found.at[1].classes, "class@20": found.at[20].classes, "by_task": found.at[1].by_task})
        print(task.index, rows[-1], flush=True)
    return {"settings": overrides, "after_each_task": rows, "seconds": round(time.perf_counter() - start)}


def _changes_first_task(name: str, overrides: dict[str, Any]) -> bool:
    strong = name.startswith("strong_") and overrides.get("strong_augment") and overrides.get("strong_share") != 0
    return bool(strong) or name in ("ema", "first_epochs", "batch_size", "lr", "weight_decay", "augment")


def main() -> None:
    """Run the trials that are asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root")
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"some of: {', '.join(TRIALS)}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    AUGMENTATIONS["crop2-flip"] = lambda x, draws: flip(crop(x, draws, pad=2), draws)
    stream, file = small_stream(args.data_root), RESULTS / f"{NAME}.json"
    first: dict[str, State] = {}
    for name in args.trials or TRIALS:
        done = json.loads(file.read_text())["trials"] if file.exists() else {}
        if name not in done:
            print(name, flush=True)
            found = run(stream, TRIALS[name], first)
            write(NAME, {"protocol": __doc__.split("\n")[0], "base": BASE, "trials": done | {name: found}})


if __name__ == "__main__":
    main()
