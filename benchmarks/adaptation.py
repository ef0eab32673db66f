"""Does adapting to a task at inference help, and can it do harm? Measured on digits, task-aware class accuracy.

usage: python benchmarks/adaptation.py [--seeds 0,1,2]
       python benchmarks/adaptation.py --run RUN [--data DIR] [--augment crop-flip] [--name NAME]

Without a run, a model is trained once for each network and seed; every way of adapting then starts from that model, so
that the differences are those of the adaptation alone. Writes benchmarks/results/adaptation.json.

With the folder of a finished run nothing is trained: own-task heads on features (`adapt_scope=own-head`) are measured
on its checkpoint, task-aware and class accuracy at p = 1, with snapshot heads if the run kept them (`snapshot_heads`).
A run made with `--validation 0.1` is evaluated on images held out of its training data, which is what a way may be
chosen on. Writes the rows of the run into benchmarks/results/adaptation-features.json, beside those of other runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from task_scores import trained
from timing import RESULTS, write

from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate

NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"backbone": "mlp"},
    "resnet18-small": {"backbone": "resnet18-small", "epochs": 6},
}
OFF: dict[str, Any] = {
    "adapt_scope": "head",
    "adapt_anchor": 0.01,
    "adapt_views": 1,
    "adapt_augment": "none",
    "adapt_lda": 0.0,
    "adapt_snapshot": 0.0,
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


def feature_ways(augment: str, *, snapshots: bool) -> Iterator[dict[str, Any]]:
    """Yield the ways of adapting on features, none first."""
    yield {"adapt_steps": 0}
    for views in (1, 8) if augment != "none" else (1,):
        seen = {"adapt_views": views, "adapt_augment": augment if views > 1 else "none"}
        base = {"adapt_steps": 50, "adapt_scope": "own-head", "adapt_guard": False, **seen}
        yield from ({**base, "adapt_anchor": anchor} for anchor in (1.0, 0.1, 0.01, 0.001))
        yield from ({**base, "adapt_lda": share} for share in (0.25, 0.5, 1.0))
        if snapshots:
            yield from ({**base, "adapt_snapshot": share} for share in (0.25, 0.5, 1.0))
            yield {**base, "adapt_snapshot": 0.5, "adapt_lda": 0.25}
        yield {**base, "adapt_guard": True}


def measure_run(run: Path, data: Path | None, augment: str, name: str | None) -> None:
    """Measure every way on a finished run, and write the rows."""
    result, learner, stream = trained(run, data)
    print(f"{result.name}, on {result.evaluated_on}: task-aware and class accuracy at p = 1")
    rows: list[dict[str, Any]] = []
    seed = result.config["seeds"]["continua"]
    for way in feature_ways(augment, snapshots=learner.settings.snapshot_heads):
        learner.configure(type(learner.settings)(**{**learner.settings.model_dump(), **OFF, **way}))
        learner.clear_caches()
        found = evaluate(learner, stream, seen=len(stream), continuum_sizes=[1], seed=seed)
        rows.append({**way, "task_aware": found.task_aware, "class": found.at[1].classes})
        print(f"{100 * (found.task_aware or 0):6.2f} {100 * found.at[1].classes:6.2f}  {way}", flush=True)
    path = RESULTS / "adaptation-features.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    name = name or f"{result.benchmark}, {result.method}, {result.preset}, {result.evaluated_on}"
    runs[name] = {"seed": result.seed, "evaluated_on": result.evaluated_on, "rows": rows}
    print(write("adaptation-features", {"runs": runs}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--run", type=Path, help="folder of a finished run")
    parser.add_argument("--data", type=Path, help="where data sets lie")
    parser.add_argument("--augment", default="none", help="augmentation of the views of exemplars, such as crop-flip")
    parser.add_argument("--name", help="of the run in the result file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.run is not None:
        measure_run(options.run, options.data, options.augment, options.name)
    else:
        measure_digits([int(seed) for seed in options.seeds.split(",")])


def measure_digits(seeds: list[int]) -> None:
    """Train on digits, and measure every way of adapting weights."""
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
