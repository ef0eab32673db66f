"""What one process and two processes compute, to be compared: each case returns plain values and tensors.

As a program (`python two_process_cases.py FOLDER NAMES`) it is one of the processes of a group, and writes what its
cases returned to a file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from itaml import distributed, params, seeding
from itaml.config import Compute, Seeds, build
from itaml.learners import LEARNERS
from itaml.learners.api import Learner
from itaml.learners.learner import GradientLearner
from itaml.learners.method import Method
from itaml.metrics.evaluate import evaluate
from itaml.models.backbones.mlp import mlp
from itaml.models.backbones.resnet import resnet
from itaml.models.classifier import Classifier
from itaml.models.sharded_layers import in_shares
from itaml.storage import State, save_state
from support import draw_batch, make_itaml, small_classifier, synthetic_stream

KIND = "case"
Case = Callable[[], State]
SMALL: dict[str, dict[str, Any]] = {
    "itaml": {"horizon": 3, "adapt_steps": 2},
    "ewc": {"strength": 10.0},
    "online-ewc": {"strength": 10.0},
    "icarl": {"lr": 1.0},
    "bic": {"memory": 60},
    "gem": {"memory_batch": 4},
    "dgr": {"generator_hidden": (16,), "latent": 4},
    "rtf": {"generator_hidden": (16,), "latent": 4},
    "dmc": {"auxiliary_images": 100},
    "rpsnet": {"modules": 2},
    "reptile": {"inner_steps": 2},
    "fomaml": {"inner_steps": 2},
    "ranpac": {"width": 100},
}
PLAIN = Compute(device="cpu", precision="fp32")


def steps(sizes: Sequence[int], batches: Sequence[Sequence[int]], **settings: Any) -> State:
    """Take a step on each batch, given as the number of its samples of each task, in double precision."""
    backbone = settings.pop("backbone", None)
    with seeding.seeded(0, "backbone"):
        model = small_classifier(sizes, backbone=backbone() if backbone else None)
    learner = make_itaml(model, **settings)
    optimizer, context, losses = learner.trainer.optimizer(), learner.context, []
    model.train()
    for number, counts in enumerate(batches):
        images, columns = draw_batch(counts, sizes, seed=number)
        for group in optimizer.param_groups:
            group["lr"] = learner.settings.lr
        share = None
        if distributed.size() > 1:
            share = learner.trainer._divide(columns, torch.arange(len(columns)))
        batch = context.make_batch(images if share is None else images[share.own], columns, share=share)
        losses.append(learner.method.step(batch, optimizer))
    return {"losses": torch.stack(losses), "weights": params.snapshot(model) | params.snapshot_buffers(model)}


def small_resnet() -> nn.Module:
    return resnet((1, 4, 4), widths=(3, 4, 5, 6))


def small_convolutions() -> nn.Module:
    first = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*first, nn.Conv2d(4, 5, 3, stride=2), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def normalized_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU())


def made(name: str, *, resnet8: bool = False, **settings: Any) -> Learner:
    """Return a learner of a method, with a small network."""
    kind = LEARNERS.load(name)
    shape = (1, 8, 8) if resnet8 else (1, 4, 4)
    if not issubclass(kind, Method):
        chosen = build(kind.Settings, {"memory": 30, **SMALL.get(name, {}), **settings})
        learner: Learner = kind.from_settings(chosen, shape=shape, seeds=Seeds.of(0))
        return learner
    values = {"memory": 30, "epochs": 2, "batch_size": 7, "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
    if not kind.traits.uses_memory:
        del values["memory"]
    chosen = build(kind.Settings, values | SMALL.get(name, {}) | settings)
    with seeding.seeded(0, "made"):
        backbone = resnet(shape, widths=(4, 4, 5, 6)) if resnet8 else mlp(shape, hidden=(12,))
        model = Classifier(backbone, shape=shape)
    model = model.double() if resnet8 else model  # where batches are tiny, batch norm amplifies rounding
    return GradientLearner(kind, model, settings=chosen, seeds=Seeds.of(0), compute=PLAIN)


def learned(name: str, *, resnet8: bool = False, **settings: Any) -> State:
    """Learn three small tasks; return the state and every number of the evaluation."""
    shape = (1, 8, 8) if resnet8 else (1, 4, 4)
    stream = synthetic_stream((2, 1, 2) if settings.get("negatives") != "own" else (2, 2, 2), train=11, shape=shape)
    learner = made(name, resnet8=resnet8, **settings)
    for task in stream:
        learner.learn(task)
    found = evaluate(learner, stream, seen=3, continuum_sizes=(1, 3), seed=0)
    images = stream.test(0).load()[0]
    return {
        "state": learner.state_dict(),
        "scores": learner.class_scores(images),  # type: ignore[attr-defined]
        "evaluation": {
            "aware": [found.task_aware, found.no_update],
            "confusion": found.task_confusion,
            "at": [[a.p, a.classes, a.tasks, *a.by_task] for a in found.at.values()],
            "classes": list(found.by_class.values()),
            "measures": found.measures,
        },
    }


def dropout() -> State:
    """Draw what dropout layers, stochastic depth and latent variables draw, for a mini-batch of 5."""

    def draw(x: Tensor) -> Tensor:
        values = [nn.functional.dropout(x, 0.5), nn.functional.dropout2d(x, 0.5), torch.randn_like(x)]
        values.append(x * x.new_empty(len(x), 1, 1, 1).bernoulli_(0.5))
        return torch.stack(values, 1)

    whole = 1 + torch.arange(5.0 * 3 * 2 * 2).reshape(5, 3, 2, 2)
    with seeding.seeded(0, "dropout"):
        last = in_shares(draw, whole.to(memory_format=torch.channels_last))
        return {"last": last, "first": in_shares(draw, whole), "next": torch.rand(1)}


ABSENT = [(4, 3, 2), (5, 0, 2), (0, 0, 3), (1, 0, 0), (2, 2, 1)]
LOOPS = [(4, 3, 2), (5, 0, 2), (0, 0, 3), (1, 1, 0)]
EXACT: dict[str, Case] = {
    **{
        f"{count} tasks, momentum {momentum}": partial(
            steps, [2] * count, [[4, 3, 2, 5, 1][:count], [3, 2, 0, 1, 2][:count], [1] * count], momentum=momentum
        )
        for count in (1, 2, 3, 4, 5)
        for momentum in (0.0, 0.9)
    },
    "absent tasks": partial(steps, (2, 3, 2), ABSENT, weight_decay=0.1),
    "absent tasks, own": partial(steps, (2, 3, 2), ABSENT, weight_decay=0.1, negatives="own", loss="bce", momentum=0.9),
    "clipped": partial(steps, (2, 3, 2), ABSENT, clip=0.05),
    "logits": partial(steps, (2, 3, 2), ABSENT, loss="ce"),
    "adam": partial(steps, (2, 3, 2), ABSENT, optimizer="adam", lr=0.01),
    "batch norm": partial(steps, (2, 3, 2), ABSENT, backbone=normalized_mlp, momentum=0.9),
    "resnet": partial(steps, (2, 3, 2), ABSENT, backbone=small_resnet, momentum=0.9),
    "loop": partial(steps, (2, 3, 2), LOOPS, engine="loop", inner_steps=2),
    "loop, momentum, own": partial(
        steps, (2, 3, 2), LOOPS, engine="loop", momentum=0.9, negatives="own", loss="bce", weight_decay=0.1, clip=0.5
    ),
    "loop, adam": partial(steps, (2, 3, 2), LOOPS, engine="loop", optimizer="adam", inner_steps=2, lr=0.01),
    "loop, batch norm": partial(steps, (2, 3, 2), LOOPS, engine="loop", momentum=0.9, backbone=small_convolutions),
    "batched": partial(steps, (2, 3, 2), LOOPS, engine="batched", inner_steps=2, momentum=0.9),
    "batched, own": partial(
        steps, (2, 3, 2), LOOPS, engine="batched", inner_steps=2, optimizer="adam", negatives="own", loss="bce"
    ),
    "dropout": dropout,
}
METHODS: dict[str, Case] = {
    **{name: partial(learned, name) for name in LEARNERS.names()},
    "itaml loop": partial(learned, "itaml", engine="loop", inner_steps=2),
    "itaml batched": partial(learned, "itaml", engine="batched", inner_steps=2, optimizer="adam", lr=0.01),
}
NETWORKS: dict[str, Case] = {
    "itaml resnet": partial(learned, "itaml", resnet8=True, lr=0.002, augment="crop-flip-cutout"),
    "itaml recipe": partial(
        learned,
        "itaml",
        resnet8=True,
        lr=0.002,
        augment="crop-flip-bright",
        distill=1.0,
        class_balancing="logits",
        loss="ce",
        cache_teacher_logits=True,
        ema=0.5,
        selection="herding",
    ),
    "icarl resnet": partial(learned, "icarl", resnet8=True, lr=0.002, distill=1.0, augment="flip"),
    # Batch norm over the two or three images of a smaller part amplifies a change of 1e-15 to 3e-4.
    "reptile resnet": partial(learned, "reptile", resnet8=True, lr=0.002, inner_lr=0.001, batch_size=30),
    "dmc resnet": partial(learned, "dmc", resnet8=True, lr=0.002, batch_size=8),
    "rtf resnet": partial(learned, "rtf", resnet8=True, lr=0.002),
}
CASES = EXACT | METHODS | NETWORKS


def main(folder: Path, names: Sequence[str]) -> None:
    torch.set_num_threads(1)
    distributed.start()
    found = {name: CASES[name]() for name in names}
    save_state(folder / f"rank{distributed.rank()}", found, kind=KIND)
    distributed.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(os.environ["CASES"]))
