"""One run over two processes: throughput against one process, and the share of time that goes into communication.

usage: python benchmarks/scale_torchrun.py [--rounds 15] [--steps 3] [--network resnet18-third] [--batch 128]

The contestants train the same network on the same images: one process with one thread, one process with two threads,
and two processes with one thread each. Two more show what messages cost: two processes that use gloo for every message,
and two that send none, which is no training but the bound of what can be reached. All are started first, and take turns
within each round, so that whatever else the machine does hits all alike. Writes benchmarks/results/torchrun.json.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from timing import random_set, ratio, write

from itaml import distributed
from itaml.config import Compute, Seeds
from itaml.data.stream import Task
from itaml.events import ignore
from itaml.hardware.allocator import keep_freed_memory
from itaml.hardware.scheduling import schedule_as_batch
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.models.classifier import build_classifier

SHAPE, CLASSES = (3, 32, 32), 10
ONE, THREADS, TWO = "1 process, 1 thread", "1 process, 2 threads", "2 processes, 1 thread each"
GLOO, SILENT = "2 processes, all messages by gloo", "2 processes, no messages"
CONTESTANTS = {ONE: (1, 1), THREADS: (1, 2), TWO: (2, 1), GLOO: (2, 1), SILENT: (2, 1)}  # processes, threads of each


class Waiting:
    """Seconds that this process spends in messages, which includes waiting for the other process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("gather", "add_up", "gather_objects"):
            setattr(distributed, name, self._timed(getattr(distributed, name)))
        begin = distributed.begin_sum
        distributed.begin_sum = lambda tensor: self._timed(self._timed(begin)(tensor))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.seconds += time.perf_counter() - start

        return call


def change_messages(contestant: str) -> None:
    """Have this process use gloo for every message, or send none."""
    if contestant == GLOO:
        group = distributed._group
        assert group is not None
        distributed._group = replace(group, links=None)
    if contestant == SILENT:
        distributed.gather = lambda tensor: [tensor] * distributed.size()
        distributed.begin_sum = lambda tensor: lambda: None


def work(contestant: str, network: str, batch: int, steps: int) -> None:
    """Train whenever a line comes in; answer with the seconds, those of them in messages, and those of the CPU."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    keep_freed_memory()  # as `itaml run` does
    if distributed.launched():
        schedule_as_batch()  # as the command line does
    distributed.start()
    change_messages(contestant)
    settings = ITAMLSettings(
        horizon=1, momentum=0.9, lr=0.01, batch_size=batch, augment="crop-flip", backbone=network, epochs=1
    )
    model = build_classifier(network, shape=SHAPE, seed=0)
    compute = Compute(device="cpu", precision="fp32")
    learner = GradientLearner(ITAML, model, settings=settings, seeds=Seeds.of(0), compute=compute)
    images = random_set(steps * batch, SHAPE, CLASSES)
    task = Task(0, tuple(range(CLASSES)), images)
    learner.begin_task(task)
    optimizer, waiting = learner.trainer.optimizer(), Waiting()
    print("ready", flush=True)
    for _ in sys.stdin:
        distributed.barrier()
        waiting.seconds, start, cpu = 0.0, time.perf_counter(), time.process_time()
        learner.trainer._epoch(task, images, 0, optimizer, ignore)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(json.dumps([seconds, waiting.seconds, cpu]), flush=True)


def start(contestant: str, arguments: list[str]) -> list[subprocess.Popen[str]]:
    count, threads = CONTESTANTS[contestant]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = []
    for rank in range(count):
        group = {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--worker", contestant, *arguments]
        pipe = subprocess.PIPE
        env = {**os.environ, **group, **where}
        started.append(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True))
    for process in started:
        answer(process)
    return started


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "a worker has ended"
    return line


def turn(processes: list[subprocess.Popen[str]]) -> tuple[float, float, float]:
    """Have one contestant train; return the seconds of its slowest process, the mean share in messages, CPU seconds."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [json.loads(answer(process)) for process in processes]
    wall, waited, cpu = zip(*found, strict=True)
    return max(wall), statistics.mean(a / b for a, b in zip(waited, wall, strict=True)), max(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet18-third")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3, help="training steps of one turn")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.worker:
        work(o.worker, o.network, o.batch, o.steps)
        return
    arguments = ["--network", o.network, "--batch", str(o.batch), "--steps", str(o.steps)]
    groups = {name: start(name, arguments) for name in CONTESTANTS}
    load_before = os.getloadavg()[0]
    times: dict[str, list[float]] = {name: [] for name in groups}
    cpu: dict[str, list[float]] = {name: [] for name in groups}
    shares: list[float] = []
    for number in range(o.rounds + 1):
        for name, processes in groups.items():
            seconds, waited, worked = turn(processes)
            if number:  # the first round warms up
                times[name].append(seconds)
                cpu[name].append(worked)
                shares += [waited] if name == TWO else []
    for processes in groups.values():
        for process in processes:
            process.communicate()
    report(o, times, cpu, shares, [round(load_before, 1), round(os.getloadavg()[0], 1)])


def scheduling() -> str:
    """Return whether other work of the machine could take the cores: `chrt -r 1` gives the processes priority."""
    real_time = os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO)
    return "real time (other work waits)" if real_time else "normal"


def report(
    options: argparse.Namespace,
    times: dict[str, list[float]],
    cpu: dict[str, list[float]],
    shares: list[float],
    load: list[float],
) -> None:
    images = options.steps * options.batch
    found = {
        "network": options.network,
        "batch": options.batch,
        "images_per_second": {name: round(images / statistics.median(values), 1) for name, values in times.items()},
        "best_images_per_second": {name: round(images / min(values), 1) for name, values in times.items()},
        "speedup_over_one_thread": ratio(times, ONE, TWO),
        "speedup_over_two_threads": ratio(times, THREADS, TWO),
        "speedup_over_one_thread_by_gloo": ratio(times, ONE, GLOO),
        "speedup_over_one_thread_without_messages": ratio(times, ONE, SILENT),
        "cpu_work_of_one_thread_over_that_of_each_process": ratio(cpu, ONE, TWO),
        "share_in_messages": {"median": round(statistics.median(shares), 4), "least": round(min(shares), 4)},
        "cores": os.cpu_count(),
        "load_average": load,
        "scheduling": scheduling(),
    }
    print(json.dumps(found, indent=1))
    print(write("torchrun", found))


if __name__ == "__main__":
    main()
