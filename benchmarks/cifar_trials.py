"""Choose the recipe for CIFAR-100 on small trials: 16 x 16 images, half of the training images, five tasks of ten.

usage: python benchmarks/cifar_trials.py DATA_ROOT [TRIAL ...]

Trains on half of the training images, evaluates on a fifth of the others, and never reads the test images. Each
finished trial is written to benchmarks/results/cifar-trials.json at once; a trial that is there is not repeated.
"""

from __future__ import annotations

import argparse
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

NAME = "cifar-trials"
SIDE, TASKS, MEMORY, VALIDATION, TESTED = 16, 5, 1000, 0.5, 0.2
BASE: dict[str, Any] = {
    "memory": MEMORY,
    "augment": "crop2-flip",
    "epochs": 15,
    "first_epochs": 20,
    "batch_size": 32,
    "progressive_resize_from": 1.0,
}
ASKED = {"cache_teacher_logits": False}  # the teacher sees the augmented image
STRONG = {**ASKED, "strong_augment": "trivial-cutout", "strong_until": 0.9}
TRIALS: dict[str, dict[str, Any]] = {
    "preset of 0.1": {},
    "teacher on augmented images": ASKED,
    "strong": STRONG,
    "strong, balance 1.3": {**STRONG, "balance_strength": 1.3},
    "strong, distillation grows": {**STRONG, "distill_growth": 0.5},
    "strong, CutMix": {**STRONG, "rehearsal_cutmix": 0.5},
    "strong, ema": {**STRONG, "ema": 0.998},
}


def small_stream(data_root: str) -> TaskStream:
    """Return the first tasks of CIFAR-100 at half size, tested on training images that are held out."""
    config = resolve("cifar100-10", seed=0, validation=VALIDATION)
    stream = make_stream(config, data_root=data_root)[:TASKS]
    tested = stream.dataset.test
    few = torch.arange(0, len(tested), round(1 / TESTED))
    small = replace(stream.dataset, train=_shrunk(stream.dataset.train), test=_shrunk(tested.select(few)))
    return replace(stream, dataset=small)


def _shrunk(images: ImageSet) -> ImageSet:
    pixels, labels = images.load()
    small = (downscale(pixels, height=SIDE, width=SIDE) * 255).round().to(torch.uint8)
    return ImageSet.from_arrays(small, labels)


def run(stream: TaskStream, overrides: dict[str, Any]) -> dict[str, Any]:
    """Train one trial and return its accuracies after every task."""
    config = resolve("cifar100-10", seed=0, overrides={**BASE, **overrides}, compute=Compute(precision="auto"))
    learner = make_learner(config, stream)
    rows, start = [], time.perf_counter()
    for task in stream:
        learner.learn(task)
        found = evaluate(learner, stream, seen=task.index + 1, continuum_sizes=(1, 20), seed=0)
        rows.append({"class@1": found.at[1].classes, "class@20": found.at[20].classes, "by_task": found.at[1].by_task})
        print(task.index, rows[-1], flush=True)
    return {"settings": overrides, "after_each_task": rows, "seconds": round(time.perf_counter() - start)}


def main() -> None:
    """Run the trials that are asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root")
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"some of: {', '.join(TRIALS)}")
    args = parser.parse_args()
    torch.set_num_threads(1)
    AUGMENTATIONS["crop2-flip"] = lambda x, draws: flip(crop(x, draws, pad=2), draws)
    stream, file = small_stream(args.data_root), RESULTS / f"{NAME}.json"
    for name in args.trials or TRIALS:
        done = json.loads(file.read_text())["trials"] if file.exists() else {}
        if name not in done:
            print(name, flush=True)
            found = run(stream, TRIALS[name])
            write(NAME, {"protocol": __doc__.split("\n")[0], "base": BASE, "trials": done | {name: found}})


if __name__ == "__main__":
    main()
