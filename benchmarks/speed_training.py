"""Parts of `speed.py`: steps, epochs, reading images, number formats."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from step_ratio import SETUPS, itaml_step, joint_step, learner, measure
from timing import Ratios, interleaved, random_set, ratio

from itaml.config import Compute, Seeds
from itaml.data.augmentations import Draws, augmentation
from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet
from itaml.data.sources import folder
from itaml.data.stream import Task
from itaml.learners.batch import Batch
from itaml.learners.compute import use_bf16
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.classifier import build_classifier
from itaml.optimizers import make_optimizer

Step = Callable[[GradientLearner, Batch], Callable[[], object]]


def step(rounds: int) -> Ratios:
    found: Ratios = {}
    for network in SETUPS:
        for tasks in (1, 10, 50):
            rows = measure(network, tasks, rounds * (20 if network == "mlp" else 3))
            found |= {f"{network}, {tasks} tasks: {name}": value for name, value in rows.items()}
    return found


def growth(rounds: int) -> Ratios:
    """Time fused steps of one network whose head differs."""
    shape, size, _ = SETUPS["mlp"]
    found: Ratios = {}

    def made(tasks: int, classes: int, step: Step = itaml_step) -> Callable[[], object]:
        grown = learner("mlp", 0, "fused")
        grown.configure(grown.settings.model_copy(update={"horizon": tasks}))
        for task in range(tasks):
            grown.model.head.grow(tuple(range(task * classes, (task + 1) * classes)), generator=torch.Generator())
        labels = torch.randint(0, tasks * classes, (size,), generator=torch.Generator().manual_seed(0))
        pixels = torch.randint(0, 256, (size, *shape), dtype=torch.uint8)
        return step(grown, grown.context.make_batch(pixels, labels))

    by_tasks = {str(n): made(n, 2) for n in (1, 2, 5, 10, 20, 50, 100)}
    times = interleaved(by_tasks, rounds=rounds * 10)
    found |= {f"{n} tasks of 2 / 1 task": ratio(times, n, "1") for n in by_tasks if n != "1"}
    by_classes = {str(n): made(10, n // 10) for n in (10, 100, 1000, 10_000)}
    times = interleaved(by_classes, rounds=rounds * 4)
    found |= {f"{n} classes / 10 classes": ratio(times, n, "10") for n in by_classes if n != "10"}
    wide = {"fused": made(10, 1000), "joint": made(10, 1000, step=joint_step)}
    times = interleaved(wide, rounds=rounds * 4)
    found["10000 classes: fused / joint"] = ratio(times, "fused", "joint")
    return found


def epoch(rounds: int) -> Ratios:
    found: Ratios = {}
    for network, count, classes, augment in (("mlp", 12_800, 10, "shift"), ("resnet18-third", 768, 10, "crop-flip")):
        shape, size, _ = SETUPS[network]
        images = random_set(count, shape, classes)
        settings = ITAMLSettings(
            backbone=network, memory=0, epochs=1, batch_size=size, lr=0.01, momentum=0.9, horizon=1, augment=augment
        )
        ours = GradientLearner(
            ITAML, build_classifier(network, shape=shape, seed=0), settings=settings, seeds=Seeds.of(0)
        )
        ours.begin_task(Task(0, tuple(range(classes)), images))
        optimizer = ours.trainer.optimizer()
        task = Task(0, tuple(range(classes)), images)
        bare = GradientLearner(
            ITAML, build_classifier(network, shape=shape, seed=0), settings=settings, seeds=Seeds.of(0)
        )
        bare.begin_task(task)
        contestants: dict[str, Callable[[], object]] = {
            "ours": partial(ours.trainer._epoch, task, images, 0, optimizer, ours.callback),
            "bare": bare_epoch(bare, images, size),
        }
        times = interleaved(contestants, rounds=rounds if network == "mlp" else max(3, rounds // 2), warmup=1)
        found[f"{network}: epoch of the learner / bare loop"] = ratio(times, "ours", "bare")
    return found


def bare_epoch(made: GradientLearner, images: ImageSet, size: int) -> Callable[[], object]:
    """Return an epoch as anybody would write it in PyTorch, on the same network, batches and augmentation."""
    pixels, labels = images.load()
    augment, noise = augmentation(made.settings.augment), torch.Generator().manual_seed(0)
    optimizer = make_optimizer("sgd", made.model.parameters(), lr=0.01, momentum=0.9)

    def run() -> None:
        made.model.train()
        for rows in torch.randperm(len(labels)).split(size):
            optimizer.zero_grad()
            batch = augment(pixels[rows], Draws(noise, len(rows))).to(memory_format=made.context.layout)
            F.cross_entropy(made.model(batch), labels[rows]).backward()
            optimizer.step()

    return run


def reading(rounds: int) -> Ratios:
    with tempfile.TemporaryDirectory() as place:
        for name in ("a", "b"):
            (Path(place) / name).mkdir()
            for number in range(128):
                noise = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8).numpy()
                Image.fromarray(noise).resize((64, 64)).save(Path(place) / name / f"{number}.jpg")
        source = folder.load(LoadOptions(root=Path(place), image_size=64)).train
        made = GradientLearner(
            ITAML,
            build_classifier("resnet18-third", shape=(3, 64, 64), seed=0),
            settings=ITAMLSettings(horizon=1),
            seeds=Seeds.of(0),
        )
        made.model.head.grow((0, 1), generator=torch.Generator())
        optimizer = made.trainer.optimizer()
        pixels, labels = source.load()

        def train() -> None:
            for rows in torch.arange(len(labels)).split(64):
                made.method.step(made.context.make_batch(pixels[rows], labels[rows]), optimizer)

        times = interleaved({"read": source.load, "train": train}, rounds=max(3, rounds // 2), warmup=1)
    return {"decoding 64x64 JPEGs / training on them": ratio(times, "read", "train")}


def number_format(rounds: int) -> Ratios:
    found: Ratios = {}
    contestants = {}
    for precision in ("fp32", "bf16"):
        made = learner("resnet18-third", 1, "fused")
        compute = Compute(precision=precision)
        made = GradientLearner(ITAML, made.model, settings=made.settings, seeds=Seeds.of(0), compute=compute)
        shape, size = SETUPS["resnet18-third"][0], 32  # small, because emulated bf16 takes its time
        labels = torch.arange(size) % 10
        contestants[precision] = itaml_step(
            made, made.context.make_batch(torch.zeros(size, *shape, dtype=torch.uint8), labels)
        )
    times = interleaved(contestants, rounds=3, warmup=1)
    found["speed of bf16 / speed of fp32"] = ratio(times, "fp32", "bf16")
    chosen = use_bf16(Compute(), learner("resnet18-third", 1, "fused").model, torch.device("cpu"))
    found["auto chooses bf16 here"] = {"median": float(chosen)}
    return found


def compiled(rounds: int) -> Ratios:
    """Time a forward and backward pass of the backbone that torch.compile translated; a C++ compiler must be there."""
    shape, size, _ = SETUPS["resnet18-third"]
    pixels = torch.rand(size, *shape).contiguous(memory_format=torch.channels_last)

    def passes(backbone: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: backbone(pixels).sum().backward()

    contestants = {}
    for name in ("eager", "compiled"):
        backbone = learner("resnet18-third", 1, "fused").model.backbone.train()
        contestants[name] = passes(torch.compile(backbone) if name == "compiled" else backbone)
    times = interleaved(contestants, rounds=max(4, rounds), warmup=1)
    return {"speed of torch.compile / eager": ratio(times, "eager", "compiled")}
