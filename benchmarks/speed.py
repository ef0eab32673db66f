"""Speed, as ratios inside one run: warmed up, interleaved, with their spread.

usage: python benchmarks/speed.py [--only NAME,...] [--rounds 8] [--threads 2]

| name     | ratio                                                                                             |
|----------|---------------------------------------------------------------------------------------------------|
| step     | fused step / plain joint step, loop / joint, at 1, 10 and 50 tasks                                |
| growth   | fused step at 1 to 100 tasks, and at 10 to 10,000 classes, over the first of each                  |
| epoch    | epoch of the learner / epoch of the same batches through a bare loop written here                  |
| evaluate | full evaluation / two forward passes and the adaptation steps; the released code's way / ours     |
| predict  | `predict_many` of single pictures / bare forward pass                                             |
| input    | decoding pictures from files / training on them                                                   |
| format   | bf16 / fp32 training step, and whether `auto` would choose bf16 on this machine                   |
| import   | `itaml --help` and `import itaml` against bare Python, its command-line library and torch         |

Prints a table and writes benchmarks/results/speed.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from step_ratio import SETUPS, itaml_step, learner, measure
from timing import RESULTS, interleaved, ratio, write

from itaml.config import Compute, Seeds
from itaml.data.benchmarks import LoadOptions
from itaml.data.images import ImageSet
from itaml.data.sources import folder
from itaml.data.stream import Dataset, Task, TaskStream
from itaml.learners.compute import use_bf16
from itaml.learners.itaml import ITAML, ITAMLSettings
from itaml.learners.optim import make_optimizer
from itaml.metrics.evaluate import evaluate
from itaml.models.classifier import build_classifier

Ratios = dict[str, dict[str, Any]]


def random_set(count: int, shape: tuple[int, int, int], classes: int) -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator)
    return ImageSet.from_arrays(pixels, torch.arange(count) % classes)


def step(rounds: int) -> Ratios:
    found: Ratios = {}
    for network in SETUPS:
        for tasks in (1, 10, 50):
            rows = measure(network, tasks, rounds * (20 if network == "mlp" else 2))
            found |= {f"{network}, {tasks} tasks: {name}": value for name, value in rows.items()}
    return found


def growth(rounds: int) -> Ratios:
    """Time fused steps of one network whose head differs."""
    shape, size, _ = SETUPS["mlp"]
    found: Ratios = {}

    def made(tasks: int, classes: int) -> Callable[[], object]:
        grown = learner("mlp", 0, "fused")
        grown.settings = grown.settings.model_copy(update={"horizon": tasks})
        for task in range(tasks):
            grown.model.head.grow(tuple(range(task * classes, (task + 1) * classes)), generator=torch.Generator())
        labels = torch.randint(0, tasks * classes, (size,), generator=torch.Generator().manual_seed(0))
        pixels = torch.randint(0, 256, (size, *shape), dtype=torch.uint8)
        return itaml_step(grown, grown.make_batch(pixels, labels))

    by_tasks = {str(n): made(n, 2) for n in (1, 2, 5, 10, 20, 50, 100)}
    times = interleaved(by_tasks, rounds=rounds * 10)
    found |= {f"{n} tasks of 2 / 1 task": ratio(times, n, "1") for n in by_tasks if n != "1"}
    by_classes = {str(n): made(10, n // 10) for n in (10, 100, 1000, 10_000)}
    times = interleaved(by_classes, rounds=rounds * 4)
    found |= {f"{n} classes / 10 classes": ratio(times, n, "10") for n in by_classes if n != "10"}
    return found


def epoch(rounds: int) -> Ratios:
    found: Ratios = {}
    for network, count, classes in (("mlp", 12_800, 10), ("resnet18-third", 768, 10)):
        shape, size, _ = SETUPS[network]
        images = random_set(count, shape, classes)
        settings = ITAMLSettings(
            backbone=network, memory=0, epochs=1, batch_size=size, lr=0.01, momentum=0.9, horizon=1
        )
        ours = ITAML(build_classifier(network, shape=shape, seed=0), settings=settings, seeds=Seeds.of(0))
        ours.begin_task(Task(0, tuple(range(classes)), images))
        optimizer = ours.optimizer()
        task = Task(0, tuple(range(classes)), images)
        bare = ITAML(build_classifier(network, shape=shape, seed=0), settings=settings, seeds=Seeds.of(0))
        bare.begin_task(task)
        contestants: dict[str, Callable[[], object]] = {
            "ours": partial(ours._epoch, task, images, 0, optimizer),
            "bare": bare_epoch(bare, images, size),
        }
        times = interleaved(contestants, rounds=rounds if network == "mlp" else max(3, rounds // 2), warmup=1)
        found[f"{network}: epoch of the learner / bare loop"] = ratio(times, "ours", "bare")
    return found


def bare_epoch(made: ITAML, images: ImageSet, size: int) -> Callable[[], object]:
    """Return an epoch as anybody would write it in PyTorch, on the same network and batches."""
    pixels, labels = images.load()
    optimizer = make_optimizer("sgd", made.model.parameters(), lr=0.01, momentum=0.9)

    def run() -> None:
        made.model.train()
        for rows in torch.randperm(len(labels)).split(size):
            optimizer.zero_grad()
            batch = pixels[rows].contiguous(memory_format=made.layout)
            F.cross_entropy(made.model(batch), labels[rows]).backward()
            optimizer.step()

    return run


def evaluation(rounds: int) -> Ratios:
    """Ten tasks of ten classes, 1,000 test images, ten head updates of adaptation a task."""
    shape, classes, tasks = (3, 32, 32), 100, 10
    train, test = random_set(1000, shape, classes), random_set(1000, shape, classes)
    splits = tuple(tuple(range(start, start + 10)) for start in range(0, classes, 10))
    stream = TaskStream(Dataset("random", tuple(map(str, range(classes))), train, test), splits)
    settings = ITAMLSettings(
        backbone="resnet18-third", memory=1000, epochs=1, batch_size=128, horizon=10, adapt_steps=10, adapt_guard=False
    )
    made = ITAML(build_classifier("resnet18-third", shape=shape, seed=0), settings=settings, seeds=Seeds.of(0))
    for task in stream:
        made.begin_task(task)
        made.end_task(task)
    pixels = test.load()[0]

    def ours() -> None:
        made.forget_adaptations()
        evaluate(made, stream, seen=tasks, ps=[1, 20], seed=0)

    def floor() -> None:
        made.forget_adaptations()
        for task in range(tasks):
            made.adapted_weights(task)
        for _ in range(2):
            made.class_scores(pixels)

    def released() -> None:
        """Adapt to every task, push all test images through each adapted model, and vote sample by sample."""
        made.forget_adaptations()
        for task in range(tasks):
            scores = made._outputs(pixels, made.adapted_weights(task))
            for row in scores:
                int(row[made.table.columns(task)].argmax())

    times = interleaved({"ours": ours, "floor": floor, "released": released}, rounds=max(3, rounds // 3), warmup=1)
    return {
        "full evaluation / two passes and the adaptation": ratio(times, "ours", "floor"),
        "the released code's way / ours": ratio(times, "released", "ours"),
    }


def predict(rounds: int) -> Ratios:
    made = learner("resnet18-third", 10, "fused")
    made.model.eval()
    pixels = random_set(1000, (3, 32, 32), 10).load()[0]

    def forward() -> None:
        with torch.no_grad():
            for part in pixels.split(500):
                made.model(part.contiguous(memory_format=torch.channels_last))

    alone = torch.arange(len(pixels))
    times = interleaved(
        {"predict": lambda: made.predict_many(pixels, alone), "forward": forward}, rounds=max(3, rounds // 2), warmup=1
    )
    return {"predict, each picture alone / bare forward": ratio(times, "predict", "forward")}


def reading(rounds: int) -> Ratios:
    with tempfile.TemporaryDirectory() as place:
        for name in ("a", "b"):
            (Path(place) / name).mkdir()
            for number in range(128):
                noise = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8).numpy()
                Image.fromarray(noise).resize((64, 64)).save(Path(place) / name / f"{number}.jpg")
        source = folder.load(LoadOptions(root=Path(place), image_size=64)).train
        made = ITAML(
            build_classifier("resnet18-third", shape=(3, 64, 64), seed=0),
            settings=ITAMLSettings(horizon=1),
            seeds=Seeds.of(0),
        )
        made.model.head.grow((0, 1), generator=torch.Generator())
        optimizer = made.optimizer()
        pixels, labels = source.load()

        def train() -> None:
            for rows in torch.arange(len(labels)).split(64):
                made.step(made.make_batch(pixels[rows], labels[rows]), optimizer)

        times = interleaved({"read": source.load, "train": train}, rounds=max(3, rounds // 2), warmup=1)
    return {"decoding 64x64 JPEGs / training on them": ratio(times, "read", "train")}


def number_format(rounds: int) -> Ratios:
    found: Ratios = {}
    contestants = {}
    for precision in ("fp32", "bf16"):
        made = learner("resnet18-third", 1, "fused")
        compute = Compute(precision=precision)
        made = ITAML(made.model, settings=made.settings, seeds=Seeds.of(0), compute=compute)
        shape, size = SETUPS["resnet18-third"][0], 32  # small, because emulated bf16 takes its time
        labels = torch.arange(size) % 10
        contestants[precision] = itaml_step(made, made.make_batch(torch.zeros(size, *shape, dtype=torch.uint8), labels))
    times = interleaved(contestants, rounds=3, warmup=1)
    found["speed of bf16 / speed of fp32"] = ratio(times, "fp32", "bf16")
    chosen = use_bf16(Compute(), learner("resnet18-third", 1, "fused").model, torch.device("cpu"))
    found["auto chooses bf16 here"] = {"median": float(chosen)}
    return found


def starting(rounds: int) -> Ratios:
    def call(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)

    times = interleaved(
        {
            "pass": call("-c", "pass"),
            "library": call("-c", "import typer, rich.console"),
            "help": call("-m", "itaml", "--help"),
            "itaml": call("-c", "import itaml"),
            "torch": call("-c", "import torch"),
        },
        rounds=max(5, rounds),
        warmup=1,
    )
    beyond = sorted(h - lib for h, lib in zip(times["help"], times["library"], strict=True))
    return {
        "import itaml / bare Python": ratio(times, "itaml", "pass"),
        "itaml --help / import of the command-line library": ratio(times, "help", "library"),
        "import torch / itaml --help": ratio(times, "torch", "help"),
        "seconds of itaml --help beyond the command-line library": {"median": round(beyond[len(beyond) // 2], 3)},
    }


PARTS: dict[str, Callable[[int], Ratios]] = {
    "step": step,
    "growth": growth,
    "epoch": epoch,
    "evaluate": evaluation,
    "predict": predict,
    "input": reading,
    "format": number_format,
    "import": starting,
}


def measured_before() -> dict[str, Ratios]:
    """Return the parts that an earlier run measured, so that measuring one anew keeps the others."""
    path = RESULTS / "speed.json"
    found: dict[str, Ratios] = json.loads(path.read_text(encoding="utf-8"))["ratios"] if path.exists() else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, Ratios] = measured_before() if options.only != ",".join(PARTS) else {}
    for name in options.only.split(","):
        results[name] = PARTS[name](options.rounds)
        for what, value in results[name].items():
            spread = f" ({value['quartiles'][0]:.2f} to {value['quartiles'][1]:.2f})" if "quartiles" in value else ""
            print(f"{name:9} {value['median']:>8.3f}{spread:18} {what}", flush=True)
        path = write("speed", {"ratios": results})  # after every part, so that an interrupted run keeps what it has
    print(path)


if __name__ == "__main__":
    main()
