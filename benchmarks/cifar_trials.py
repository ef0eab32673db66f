"""Choose the recipe for CIFAR-100 on small trials: 400 training images per class, three tasks of ten.

usage: python benchmarks/cifar_trials.py [--full-size | --ten-tasks] DATA_ROOT [TRIAL ...]

Trains on 400 training images of each class, evaluates on its 100 others, and never reads the test images. The memory
of 600 leaves 20 exemplars per class after the third task, as 2,000 do after the tenth of the whole benchmark. Images
have 16 x 16 pixels and tasks 15 epochs; with --full-size they have 32 x 32 pixels and 24 epochs, and what each trial
has trained is also evaluated with other settings of the inference. With --ten-tasks all ten tasks are learned with
a memory of 2,000, images have 16 x 16 pixels and tasks eight epochs: for settings that matter more as tasks go by.
Each finished trial is written at once to a file of benchmarks/results: cifar-trials.json, cifar-trials-32px.json or
cifar-trials-10-tasks.json; a trial that is there is not repeated.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
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
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from itaml.storage import State

PROTOCOL = "tasks of CIFAR-100, 400 training images per class, evaluated on the 100 other training images"
VALIDATION = 0.2
EARLIER: dict[str, Any] = {  # the preset of 0.1, whatever it is today
    "memory": 600,
    "batch_size": 32,
    "strong_augment": "none",
    "cache_teacher_logits": True,
    "shift_tta": 0,
    "align_head": 0.0,
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


FULL_TRIALS: dict[str, dict[str, Any]] = {
    "preset of 0.1": {},
    "strong, teacher on augmented images": {**STRONG, **ASKED, "strong_share": 0.5, "strong_until": 0.85},
    "strong on all images, teacher on augmented images": {**STRONG, **ASKED, "strong_share": 1.0, "strong_until": 0.85},
    "strong on half of all images, teacher on augmented images": {
        **STRONG,
        **ASKED,
        "strong_share": 0.5,
        "strong_exemplar_share": 0.5,
        "strong_until": 0.85,
    },
}
TEN_TRIALS: dict[str, dict[str, Any]] = {
    "distillation 1": ASKED,
    "distillation grows": {**ASKED, "distill_growth": 1.0},
    "distillation grows by the root": {**ASKED, "distill_growth": 0.5},
    "distillation 3": {**ASKED, "distill": 3.0},
}
INFERENCE: tuple[dict[str, Any], ...] = (
    *({"shift_tta": shift, "align_head": 0.0} for shift in (0, 1, 2, 3)),
    *({"shift_tta": 2, "align_head": share} for share in (0.5, 0.7, 1.0)),
)


@dataclass(frozen=True)
class Size:
    """A size of trials."""

    name: str  # of the result
    side: int  # of the images
    base: Mapping[str, Any]  # settings of every trial
    trials: Mapping[str, dict[str, Any]]
    tasks: int = 3
    inference: tuple[dict[str, Any], ...] = ()  # settings that the trained learner is evaluated with too


SHORT = {"augment": "crop2-flip", "epochs": 15, "first_epochs": 30, "progressive_resize_from": 1.0}
SMALL = Size("cifar-trials", 16, {**EARLIER, **SHORT}, TRIALS)
FULL = Size("cifar-trials-32px", 32, {**EARLIER, "epochs": 24, "first_epochs": 40}, FULL_TRIALS, inference=INFERENCE)
TEN = Size(
    "cifar-trials-10-tasks",
    16,
    {**EARLIER, **SHORT, "epochs": 8, "first_epochs": 16, "memory": 2000},
    TEN_TRIALS,
    tasks=10,
    inference=tuple({"shift_tta": 1, "align_head": share} for share in (0.0, 0.3, 0.5, 0.7, 1.0)),
)


def trial_stream(data_root: str, side: int, tasks: int) -> TaskStream:
    """Return the first tasks of CIFAR-100, tested on training images that are held out."""
    config = resolve("cifar100-10", seed=0, validation=VALIDATION)
    stream = make_stream(config, data_root=data_root)[:tasks]
    if side == stream.shape[1]:
        return stream
    small = replace(stream.dataset, train=_shrunk(stream.dataset.train, side), test=_shrunk(stream.dataset.test, side))
    return replace(stream, dataset=small)


def _shrunk(images: ImageSet, side: int) -> ImageSet:
    pixels, labels = images.load()
    small = (downscale(pixels, height=side, width=side) * 255).round().to(torch.uint8)
    return ImageSet.from_arrays(small, labels)


def run(stream: TaskStream, size: Size, overrides: dict[str, Any], first: dict[str, State]) -> dict[str, Any]:
    """Train one trial and return its accuracies after every task.

    Args:
        stream: the tasks.
        size: what all trials share.
        overrides: settings that differ from those of `size`.
        first: states after the first task, for trials that train it equally; a new one is added.
    """
    collected = {"align_head": 1.0} if size.inference else {}  # keeps the Gaussians, and training as it is
    settings = {**size.base, **overrides, **collected}
    config = resolve("cifar100-10", seed=0, overrides=settings, compute=Compute(precision="auto"))
    learner = make_learner(config, stream)
    assert isinstance(learner, GradientLearner), "iTAML is trained by gradient steps"
    equal = json.dumps({name: value for name, value in overrides.items() if _changes_first_task(name, overrides)})
    rows, start = [], time.perf_counter()
    for task in stream:
        if task.index == 0 and equal in first:
            learner.load_state_dict(first[equal])
        else:
            learner.learn(task)
        if task.index == 0:
            first[equal] = copy.deepcopy(learner.state_dict())
        rows.append(_accuracies(learner, stream, task.index + 1, size.base))
        print(task.index, rows[-1], flush=True)
    seconds = round(time.perf_counter() - start)
    inference = [{"settings": one, **_accuracies(learner, stream, size.tasks, one)} for one in size.inference]
    return {"settings": overrides, "after_each_task": rows, "inference": inference, "seconds": seconds}


def _accuracies(learner: GradientLearner, stream: TaskStream, seen: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate with the inference that the settings name."""
    before = learner.settings
    used = {name: settings[name] for name in ("shift_tta", "align_head")}
    learner.configure(before.model_copy(update=used))
    learner.clear_caches()
    found = evaluate(learner, stream, seen=seen, continuum_sizes=(1, 20), seed=0)
    learner.configure(before)
    learner.clear_caches()
    return {"class@1": found.at[1].classes, "class@20": found.at[20].classes, "by_task": found.at[1].by_task}


def _changes_first_task(name: str, overrides: dict[str, Any]) -> bool:
    strong = name.startswith("strong_") and overrides.get("strong_augment") and overrides.get("strong_share") != 0
    return bool(strong) or name in ("ema", "first_epochs", "batch_size", "lr", "weight_decay", "augment")


def done(file: Path) -> dict[str, Any]:
    """Return the trials that are there; read again before each writing, because others may run beside."""
    trials: dict[str, Any] = json.loads(file.read_text())["trials"] if file.exists() else {}
    return trials


def main() -> None:
    """Run the trials that are asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_root")
    parser.add_argument(
        "trials", nargs="*", metavar="TRIAL", help=f"some of: {', '.join({**TRIALS, **FULL_TRIALS, **TEN_TRIALS})}"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full-size", action="store_const", dest="size", const=FULL, default=SMALL)
    sizes.add_argument("--ten-tasks", action="store_const", dest="size", const=TEN)
    args = parser.parse_args()
    torch.set_num_threads(1)
    AUGMENTATIONS["crop2-flip"] = lambda x, draws: flip(crop(x, draws, pad=2), draws)
    size: Size = args.size
    stream, file = trial_stream(args.data_root, size.side, size.tasks), RESULTS / f"{size.name}.json"
    first: dict[str, State] = {}
    for name in args.trials or size.trials:
        if name not in done(file):
            print(name, flush=True)
            found = run(stream, size, size.trials[name], first)
            write(size.name, {"protocol": PROTOCOL, "base": size.base, "trials": done(file) | {name: found}})


if __name__ == "__main__":
    main()
