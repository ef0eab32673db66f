"""One training step of iTAML against a plain joint step on the same batch.

usage: python benchmarks/step_ratio.py [--tasks 1,5,10,50] [--rounds 40] [--threads 2]

Joint: mean softmax cross-entropy over all classes, backward, SGD. Fused, batched and loop: the engines of iTAML at
r = 1, same network, same loss, same optimiser; batched is for networks without batch normalisation. Prints a table and
writes benchmarks/results/step-ratio.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from timing import interleaved, ratio, write

from itaml.config import Seeds
from itaml.learners.batch import Batch
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.classifier import build_classifier
from itaml.optimizers import make_optimizer

SETUPS = {"mlp": ((1, 28, 28), 256, 10), "resnet18-third": ((3, 32, 32), 128, 10)}  # shape, batch, classes per task


def learner(network: str, tasks: int, engine: str) -> GradientLearner:
    """Return an iTAML learner that has seen `tasks` tasks."""
    shape, _, size = SETUPS[network]
    settings = ITAMLSettings(engine=engine, horizon=max(tasks, 1), momentum=0.9, lr=0.01)
    made = GradientLearner(ITAML, build_classifier(network, shape=shape, seed=0), settings=settings, seeds=Seeds.of(0))
    for task in range(tasks):
        classes = tuple(range(task * size, (task + 1) * size))
        made.model.head.grow(classes, generator=torch.Generator().manual_seed(task))
    return made


def itaml_step(made: GradientLearner, batch: Batch) -> Callable[[], object]:
    optimizer = made.trainer.optimizer()
    made.model.train()
    return lambda: made.method.step(replace(batch), optimizer)  # a batch keeps its logits


def joint_step(made: GradientLearner, batch: Batch) -> Callable[[], object]:
    optimizer = make_optimizer("sgd", made.model.parameters(), lr=0.01, momentum=0.9)
    made.model.train()

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(made.model(batch.images), batch.targets).backward()
        optimizer.step()

    return step


def measure(network: str, tasks: int, rounds: int) -> dict[str, dict[str, float]]:
    _, size, _ = SETUPS[network]
    makers = {"joint": ("fused", joint_step), "fused": ("fused", itaml_step), "loop": ("loop", itaml_step)}
    if network == "mlp":
        makers["batched"] = ("batched", itaml_step)
    contestants = {}
    for name, (engine, maker) in makers.items():
        made = learner(network, tasks, engine)
        generator = torch.Generator().manual_seed(1)
        pixels = torch.randint(0, 256, (size, *made.model.shape), dtype=torch.uint8, generator=generator)
        labels = torch.randint(0, len(made.task_map.classes), (size,), generator=generator)
        contestants[name] = maker(made, made.context.make_batch(pixels, labels))
    fast = {name: contestants.pop(name) for name in ("joint", "fused")}
    times = interleaved(fast, rounds=rounds)
    slow = interleaved({"joint": fast["joint"], **contestants}, rounds=3, warmup=1)
    literal = {f"{name} / joint": ratio(slow, name, "joint") for name in contestants}
    return {"fused / joint": ratio(times, "fused", "joint"), **literal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="1,5,10,50")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    print(f"{'network':16} {'tasks':>5} {'fused / joint':>14} {'loop / joint':>13}")
    for network in SETUPS:
        rounds = options.rounds * (5 if network == "mlp" else 1)
        for tasks in map(int, options.tasks.split(",")):
            row = measure(network, tasks, rounds)
            results.setdefault(network, {})[str(tasks)] = row
            print(f"{network:16} {tasks:>5} {row['fused / joint']['median']:>14} {row['loop / joint']['median']:>13}")
    print(write("step-ratio", {"ratios": results}))


if __name__ == "__main__":
    main()
