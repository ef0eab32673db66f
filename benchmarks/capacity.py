"""Capacity on paper: what large runs cost, and a simulation of many processes with step times recorded here.

usage: python benchmarks/capacity.py [--steps 40] [--keep]

Counts parameters and multiplications of the networks, computes bytes and operations for ImageNet-1K and for a million
classes, records the times of training steps on this machine, and simulates synchronous training: every process draws
its step from the recorded ones, the slowest decides, and a ring all-reduce of the gradients follows. Rates of
hardware are assumptions and are written down as such. If results/torchrun.json is there, its measured share of time in
messages at two processes is kept beside the model's. With --keep the recorded step times are kept as they are. Writes
benchmarks/results/capacity.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from typing import Any

import torch
from timing import RESULTS, write
from torch import Tensor, nn

from itaml.models import MODELS

NAME = "capacity"
ASSUMED = {
    "operations per second of a GPU, sustained": 50e12,
    "bytes per second between GPUs of a node": 200e9,
    "bytes per second between nodes, for each node": 12.5e9,
    "seconds for a message": 10e-6,
    "GPUs of a node": 8,
}
BATCH = 128  # images of a process and step
FLOAT = 4  # bytes
LDA_FEATURES, RANPAC_FEATURES = 1280, 10_000
PICKS = 20  # exemplars of a class
CASES = {
    "ImageNet-1K": {"classes": 1000, "images": 1_281_167, "memory": 20_000},
    "1M classes": {"classes": 1_000_000, "images": 1_000_000_000, "memory": 20_000_000},
}
IMAGE = (3, 224, 224)


def counted(network: nn.Module, image: Tensor) -> tuple[int, int, int]:
    """Return the parameters, the multiplications of one forward pass and the number of features of a network."""
    total = 0

    def count(module: nn.Module, _: Any, output: Tensor) -> None:
        nonlocal total
        weight = module.weight
        assert isinstance(weight, Tensor)
        total += output[0].numel() * weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        features = network.eval()(image)
    for hook in hooks:
        hook.remove()
    return sum(p.numel() for p in network.parameters()), total, int(features.flatten(1).shape[1])


def recorded_steps(steps: int) -> list[float]:
    """Return the seconds of training steps of ResNet-18(1/3), one thread, 32 images of 32 x 32 pixels."""
    torch.manual_seed(0)
    network = MODELS.load("resnet18-third")((3, 32, 32)).train()
    images = torch.randn(32, 3, 32, 32)
    times = []
    for number in range(steps + 3):
        start = time.perf_counter()
        network.zero_grad()
        network(images).square().mean().backward()
        if number >= 3:
            times.append(time.perf_counter() - start)
    return times


def costs(case: dict[str, int], backbone: int, macs: int, features: int) -> dict[str, float]:
    """Return bytes and operations of one data set."""
    classes, images, memory = case["classes"], case["images"], case["memory"]
    head = features * classes
    weights = FLOAT * (backbone + head)
    exemplars = memory * math.prod(IMAGE)
    each = images // classes
    return {
        "parameters of the backbone": backbone,
        "parameters of the head": head,
        "operations of an epoch": 6.0 * (macs + head) * images,
        "bytes of gradients per step and process": weights,
        "bytes of logits per step and process": FLOAT * BATCH * classes,
        "bytes of exemplars": exemplars,
        "bytes of a checkpoint": 3 * weights + exemplars,  # weights, momentum, base
        "bytes of class means of LDA": FLOAT * LDA_FEATURES * classes,
        "bytes of the Gram matrix of LDA": 8 * LDA_FEATURES**2,
        "bytes of the Gram matrix of RanPAC": 8 * RANPAC_FEATURES**2,
        "bytes of the class sums of RanPAC": FLOAT * RANPAC_FEATURES * classes,
        "operations of the features for herding": 2.0 * macs * images,
        "operations of herding itself": 2.0 * classes * each * PICKS * features,
    }


def message_seconds(size: float, gpus: int) -> float:
    """Return the seconds of a ring all-reduce: within nodes, then between nodes."""
    inside = min(gpus, int(ASSUMED["GPUs of a node"]))
    nodes = gpus // inside
    seconds = 0.0
    for members, rate in (
        (inside, ASSUMED["bytes per second between GPUs of a node"]),
        (nodes, ASSUMED["bytes per second between nodes, for each node"]),
    ):
        if members > 1:
            seconds += 2 * (members - 1) / members * size / rate
            seconds += 2 * (members - 1) * ASSUMED["seconds for a message"]
    return seconds


def simulated(case: dict[str, float], macs: int, times: list[float], gpus: int, *, rounds: int = 300) -> dict[str, Any]:
    """Return how the time of a step is divided when `gpus` processes train together, nothing overlapped."""
    head = case["parameters of the head"]
    compute = 6.0 * (macs + head) * BATCH / ASSUMED["operations per second of a GPU, sustained"]
    mean = statistics.fmean(times)
    draw = random.Random(gpus)
    slowest = [max(draw.choices(times, k=gpus)) / mean for _ in range(rounds)] if gpus > 1 else [1.0]
    waiting = compute * (statistics.fmean(slowest) - 1)
    messages = message_seconds(case["bytes of gradients per step and process"], gpus)
    step = compute + waiting + messages
    return {
        "gpus": gpus,
        "compute_seconds": compute,
        "waiting_seconds": waiting,
        "message_seconds": messages,
        "share_in_messages": messages / step,
        "efficiency": compute / step,
        "epoch_minutes": case["images"] / (BATCH * gpus) * step / 60,
    }


def measured_share() -> float | None:
    """Return the share of time in messages at two processes on CPUs, if it was measured."""
    path = RESULTS / "torchrun.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8")).get("share_in_messages", {}).get("median")
    return None if found is None else float(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    old = RESULTS / f"{NAME}.json"
    kept = json.loads(old.read_text(encoding="utf-8"))["step_seconds"] if options.keep else None
    times = kept or [round(seconds, 5) for seconds in recorded_steps(options.steps)]
    backbone, macs, features = counted(MODELS.load("resnet18")(IMAGE), torch.zeros(1, *IMAGE))
    cases = {}
    for name, case in CASES.items():
        found = costs(case, backbone, macs, features)
        runs = [simulated({**found, "images": case["images"]}, macs, times, gpus) for gpus in (1, 8, 512)]
        cases[name] = {**case, "costs": found, "simulated": runs}
    content = {
        "network": {"name": "resnet18", "parameters": backbone, "macs": macs, "features": features},
        "batch_of_a_process": BATCH,
        "assumed": ASSUMED,
        "step_seconds": times,
        "measured_share_in_messages_2_processes": measured_share(),
        "cases": cases,
    }
    print(write(NAME, content))


if __name__ == "__main__":
    main()
