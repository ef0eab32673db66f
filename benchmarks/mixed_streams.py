"""Streams that mix tasks: runs of random length 1 to 50, each image alone, segmented by an oracle, and segmented by us.

    python benchmarks/mixed_streams.py [--data-root FOLDER] [--docs]

Writes benchmarks/results/mixed-streams.json; `--docs` only writes its table into docs/model-store.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.root import data_root
from itaml.data.stream import TaskStream
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.run_config import resolve
from itaml.inference.segmentation import OnlineSegmenter, estimate_mean_run, runs, segment, switch_cost, temper_evidence
from itaml.learners.learner import GradientLearner

HOME = Path(__file__).resolve().parents[1]
RESULTS = HOME / "benchmarks" / "results" / "mixed-streams.json"
DOCS = HOME / "docs" / "model-store.md"
BEGIN, END = "<!-- mixed-streams: begin -->", "<!-- mixed-streams: end -->"
LONGEST = 50
LAG = 25
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", {"epochs": 10}),
    "MNIST": ("mnist-5", {"epochs": 2}),
    "MNIST, memory 200": ("mnist-5", {"epochs": 2, "memory": 200}),
}
WAYS = {
    "alone": "each image alone (p=1)",
    "ours": "segmented by us",
    "ours_online": f"segmented by us, online, {LAG} images of delay",
    "oracle": "segmented by an oracle",
}


def mixed(tasks: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Order samples by runs of one task, of random length, no task following itself; return order and run numbers."""
    pools = {task: (tasks == task).nonzero().flatten().tolist() for task in torch.unique(tasks).tolist()}
    for pool in pools.values():
        shuffle = torch.randperm(len(pool), generator=generator).tolist()
        pool[:] = [pool[place] for place in shuffle]
    order: list[int] = []
    numbers: list[int] = []
    last, run = -1, 0
    while left := [task for task, pool in pools.items() if pool and task != last]:
        last = left[int(torch.randint(len(left), (1,), generator=generator))]
        length = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        taken, pools[last] = pools[last][:length], pools[last][length:]
        order += taken
        numbers += [run] * len(taken)
        run += 1
    return torch.tensor(order), torch.tensor(numbers)


def measure(learner: GradientLearner, stream: TaskStream, *, error: float, seed: int) -> dict[str, float]:
    """Return the class accuracy of each way on one mixed stream of all test images."""
    sets = [stream.test(task).load() for task in range(len(stream))]
    pixels, labels = (torch.cat(part) for part in zip(*sets, strict=True))
    tasks = learner.task_map.task_of(labels)
    order, truth = mixed(tasks, seeding.generator(seed, "mixed"))
    scores, labels, tasks = learner.class_scores(pixels)[order], labels[order], tasks[order]
    evidence = temper_evidence(learner.predictor.task_evidence(scores), error=error)
    mean_run = estimate_mean_run(evidence)
    cost = switch_cost(mean_run, len(stream))
    online = OnlineSegmenter(len(stream), switch_cost=cost, lag=LAG)
    told = [task for task in map(online.push, evidence) if task is not None] + online.flush()
    cuts = {
        "alone": torch.arange(len(labels)),
        "ours": runs(segment(evidence, cost)),
        "ours_online": runs(torch.tensor(told)),
        "oracle": truth,
    }

    def accuracy(groups: Tensor) -> float:
        classes = learner.predictor.predict(scores, groups, lambda rows: pixels[order[rows]])[0]
        return float((classes == labels).double().mean())

    found = {name: accuracy(groups) for name, groups in cuts.items()}
    return {**found, "mean_run": float(len(labels) / (truth[-1] + 1)), "mean_run_estimated": mean_run}


def study(name: str, root: Path, *, seeds: int) -> dict[str, Any]:
    benchmark, overrides = SETTINGS[name]
    rows: list[dict[str, float]] = []
    for seed in range(seeds):
        config = resolve(benchmark, seed=seed, overrides=overrides)
        whole = make_stream(config, data_root=root)
        training = whole.validation_split(0.05, seed=seed)  # the share that tells how often a single image misleads
        learner = make_learner(config, training)
        assert isinstance(learner, GradientLearner)
        for task in training:
            learner.learn(task)
        wrong = total = 0
        for index in range(len(training)):
            found = learner.predictor.task_evidence(learner.class_scores(training.test(index).load()[0])).argmax(1)
            wrong, total = wrong + int((found != index).sum()), total + len(found)
        error = len(training) / (len(training) - 1) * (wrong + 1) / (total + 2)
        rows += [{"error": error, **measure(learner, whole, error=error, seed=10 * seed + k)} for k in range(3)]
    mean = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}
    return {"benchmark": benchmark, "settings": overrides, "seeds": seeds, "streams": len(rows), **mean}


def table(results: Mapping[str, Any]) -> str:
    """Return the table for the docs, accuracies in per cent."""
    lines = ["| class accuracy in per cent | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for key, words in WAYS.items():
        cells = " | ".join(f"{100 * result[key]:.1f}" for result in results.values())
        lines.append(f"| {words} | {cells} |")
    return "\n".join(lines)


def with_table(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the table of these results."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table(results) + "\n" + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data-root", type=Path, help="folder of the data sets; else ITAML_DATA")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--docs", action="store_true", help="only write the table of earlier results into the docs")
    given = parser.parse_args()
    if not given.docs:
        torch.set_num_threads(1)
        results = {name: study(name, data_root(given.data_root), seeds=given.seeds) for name in SETTINGS}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    if DOCS.exists():
        DOCS.write_text(with_table(DOCS.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
