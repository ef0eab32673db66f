"""Does adapting to a task at inference help, and can it do harm? Measured on digits, task-aware class accuracy.

usage: python benchmarks/adaptation.py [--seeds 0,1,2]

A model is trained once for each network and seed; every way of adapting then starts from that same model, so that the
differences are those of the adaptation alone. Writes benchmarks/results/adaptation.json.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from timing import write

from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate

NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"backbone": "mlp"},
    "resnet18-small": {"backbone": "resnet18-small", "epochs": 6},
}
WAYS = [
    {"adapt_scope": scope, "adapt_optimizer": optimizer, "adapt_lr": lr, "adapt_guard": guard}
    for scope in ("head", "all")
    for optimizer, lr in (("sgd", 0.01), ("adam", 0.001), ("adam", 0.01))
    for guard in (True, False)
]


def task_aware(learner: GradientLearner, stream: Any, way: dict[str, Any] | None) -> float:
    """Return the task-aware accuracy of a trained learner under one way of adapting; None is no adaptation."""
    steps = {"adapt_steps": 0} if way is None else {"adapt_steps": 10, **way}
    learner.configure(learner.settings.model_copy(update=steps))
    learner.clear_caches()
    value = evaluate(learner, stream, seen=len(stream), continuum_sizes=[1], seed=0).task_aware
    assert value is not None
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for network, overrides in NETWORKS.items():
        found: list[list[float]] = []
        for seed in seeds:
            config = resolve("digits", seed=seed, overrides=overrides)
            stream = make_stream(config)
            learner = make_learner(config, stream)
            assert isinstance(learner, GradientLearner)
            for task in stream:
                learner.learn(task)
            found.append([task_aware(learner, stream, way) for way in (None, *WAYS)])
        for way, values in zip((None, *WAYS), zip(*found, strict=True), strict=True):
            rows.append({"network": network, **(way or {"adapt_scope": "off"}), "task_aware": list(values)})
            print(network, way or "no adaptation", [round(value, 4) for value in values])
    print(write("adaptation", {"benchmark": "digits", "steps": 10, "seeds": seeds, "rows": rows}))


if __name__ == "__main__":
    main()
