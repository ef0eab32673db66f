"""Speed beside Avalanche's Replay and iCaRL: the same images, network, epochs, batch size and memory, in one run.

usage: python benchmarks/peers.py [--rounds 5]

Needs avalanche-lib (`pip install avalanche-lib`) and a torchvision that fits torch. Writes results/peers.json. The two
packages mix old and new images differently: Avalanche's Replay adds a mini-batch of exemplars to each mini-batch of new
images, this package shuffles both together. So the time of the whole work is given, and the time for each 1,000 images
that passed through the network in training.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from timing import interleaved, ratio, write
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from itaml.config import Compute, Seeds, build, load_preset
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.learners import LEARNERS
from itaml.models.backbones.mlp import mlp_400

SHAPE = (1, 28, 28)
TASKS, PER_TASK, IMAGES = 5, 2, 300  # images of each class
WORK = {"epochs": 2, "batch_size": 32, "memory": 200, "lr": 0.05}
OURS, THEIRS = ("replay", "icarl", "itaml"), ("replay", "icarl")
seen: dict[str, int] = {}  # images that passed through the network in training


def data() -> tuple[Tensor, Tensor]:
    """Return images of classes with a bright patch of their own, between 0 and 1, and labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(TASKS * PER_TASK).repeat_interleave(IMAGES)
    images = torch.rand(len(labels), *SHAPE, generator=generator) / 2
    for label in range(TASKS * PER_TASK):
        row, column = divmod(label, 5)
        images[labels == label, :, 12 * row : 12 * row + 8, 5 * column : 5 * column + 5] += 0.5
    return images, labels


def counted(network: nn.Module, name: str) -> nn.Module:
    """Return a network that counts the images that pass through it in training."""

    def count(module: nn.Module, inputs: Any) -> None:
        if module.training and torch.is_grad_enabled():
            seen[name] = seen.get(name, 0) + len(inputs[0])

    network.register_forward_pre_hook(count)
    return network


def itaml_run(method: str, images: Tensor, labels: Tensor) -> Callable[[], float]:
    """Return a function that learns all tasks by a method of this package and returns its accuracy."""
    kind = LEARNERS.load(method)
    fields = kind.Settings.model_fields
    values = load_preset(method, "best", benchmark="peers") | {
        "augment": "none",
        "backbone": "mlp",
        "horizon": "open",
        "optimizer": "sgd",
        "momentum": 0.0,
        "weight_decay": 0.0,
        **WORK,
    }
    settings = build(kind.Settings, {key: value for key, value in values.items() if key in fields})

    def run() -> float:
        learner = kind.from_settings(settings, shape=SHAPE, seeds=Seeds.of(0), compute=Compute(device="cpu"))
        counted(learner.model.backbone, f"itaml {method}")
        for task in range(TASKS):
            classes = tuple(range(PER_TASK * task, PER_TASK * (task + 1)))
            rows = torch.isin(labels, torch.tensor(classes))
            learner.learn(Task(task, classes, ImageSet.from_arrays(images[rows], labels[rows])))
        found = learner.predict(images, torch.arange(len(images))).classes
        return float((found == labels).float().mean())

    return run


def avalanche_run(method: str, images: Tensor, labels: Tensor) -> Callable[[], float]:
    """Return a function that learns all tasks by a strategy of Avalanche and returns its accuracy."""
    from avalanche.benchmarks import nc_benchmark
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.training import ICaRL, Replay
    from avalanche.training.plugins import EvaluationPlugin

    dataset: Any = TensorDataset(images, labels)
    dataset.targets = labels.tolist()
    order = list(range(TASKS * PER_TASK))
    benchmark = nc_benchmark(dataset, dataset, n_experiences=TASKS, task_labels=False, fixed_class_order=order)

    def run() -> float:
        torch.manual_seed(0)
        network, head = counted(mlp_400(SHAPE), f"avalanche {method}"), nn.Linear(400, TASKS * PER_TASK)
        common: dict[str, Any] = {
            "optimizer": torch.optim.SGD([*network.parameters(), *head.parameters()], lr=WORK["lr"]),
            "train_mb_size": WORK["batch_size"],
            "train_epochs": WORK["epochs"],
            "eval_mb_size": 500,
            "evaluator": EvaluationPlugin(accuracy_metrics(stream=True), loggers=[]),
        }
        if method == "replay":
            strategy = Replay(
                model=nn.Sequential(network, head),
                criterion=nn.CrossEntropyLoss(),
                mem_size=WORK["memory"],
                **common,
            )
        else:
            strategy = ICaRL(
                feature_extractor=network,
                classifier=head,
                memory_size=WORK["memory"],
                buffer_transform=None,
                fixed_memory=True,
                **common,
            )
        for experience in benchmark.train_stream:
            strategy.train(experience)
        metrics = strategy.eval(benchmark.test_stream)
        return float(next(value for name, value in metrics.items() if name.startswith("Top1_Acc_Stream")))

    return run


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    images, labels = data()
    runs = {f"itaml {method}": itaml_run(method, images, labels) for method in OURS}
    runs |= {f"avalanche {method}": avalanche_run(method, images, labels) for method in THEIRS}
    accuracy = {name: run() for name, run in runs.items()}
    passed = dict(seen)
    times = interleaved(runs, rounds=rounds, warmup=1)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    per_image = {name: [value * 1000 / passed[name] for value in values] for name, values in times.items()}
    pairs = [
        ("avalanche replay", "itaml replay"),
        ("avalanche icarl", "itaml icarl"),
        ("avalanche icarl", "itaml itaml"),
    ]
    result = {
        "avalanche": version("avalanche-lib"),
        "work": {**WORK, "tasks": TASKS, "classes": TASKS * PER_TASK, "images": len(labels), "network": "mlp"},
        "rows": {
            name: {
                "accuracy": round(accuracy[name], 4),
                "seconds": round(seconds[name], 4),
                "training_images": passed[name],
            }
            for name in runs
        },
        "ratios": {f"{a} / {b}": {"whole": ratio(times, a, b), "per image": ratio(per_image, a, b)} for a, b in pairs},
    }
    print(write("peers", result))


if __name__ == "__main__":
    main()
