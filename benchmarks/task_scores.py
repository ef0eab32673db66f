"""How well is the task found at p = 1, 2, 5, 10 and 20 by each task score, on the weights of one finished run?

usage: python benchmarks/task_scores.py RUN [--data DIR] [--name NAME] [--weights 0.01,0.1,1,10]

RUN is the folder of a finished `itaml run`; nothing is trained. A run made with `--validation 0.1` is evaluated on
images that were held out of its training data, which is what a score may be chosen on; a run on test data only shows.
Writes the rows of the run into benchmarks/results/task-scores.json, beside those of other runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, write

from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.result import Result
from itaml.experiment.run_config import RunConfig, completed
from itaml.experiment.run_folder import CHECKPOINT, KIND
from itaml.learners.learner import GradientLearner
from itaml.metrics.evaluate import evaluate
from itaml.storage import load_state

SIZES = (1, 2, 5, 10, 20)
TEMPERATURES = (0.25, 0.5, 2.0, 4.0)
EPSILONS = (0.01, 0.05, 0.1)
PLAIN = {"task_temperature": 1.0, "task_epsilon": 0.0, "task_distance": "none", "task_distance_weight": 1.0}


def family(weights: list[float]) -> Iterator[dict[str, Any]]:
    """Yield the settings to compare."""
    yield {"task_score": "max-logit"}
    yield {"task_score": "log-posterior"}
    yield {"task_score": "calibrated"}
    yield from ({"task_score": "energy", "task_temperature": temperature} for temperature in TEMPERATURES)
    yield from ({"task_score": "log-posterior", "task_epsilon": epsilon} for epsilon in EPSILONS)
    for distance in ("mahalanobis", "nearest"):
        for weight in weights:
            yield {"task_score": "log-posterior", "task_distance": distance, "task_distance_weight": weight}


def trained(run: Path, data: Path | None) -> tuple[Result, GradientLearner, Any]:
    """Return the result of a run, its learner restored from the last checkpoint, and its stream."""
    result = Result.load(run)
    config = RunConfig.model_validate(completed(result.config))
    stream = make_stream(config, data_root=data)
    learner = make_learner(config, stream)
    learner.load_state_dict(load_state(run / CHECKPOINT, kind=KIND)["learner"])
    assert isinstance(learner, GradientLearner), "the run is of a method without gradient steps"
    return result, learner, stream


def measure(learner: GradientLearner, stream: Any, chosen: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """Return task and class accuracy at every p with some settings of the task score."""
    learner.configure(type(learner.settings)(**{**learner.settings.model_dump(), **PLAIN, **chosen}))
    learner.clear_caches()
    found = evaluate(learner, stream, seen=len(stream), continuum_sizes=SIZES, seed=seed)
    return {
        **chosen,
        "task": {str(p): at.tasks for p, at in found.at.items()},
        "class": {str(p): at.classes for p, at in found.at.items()},
    }


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line of text."""
    what = " ".join(f"{value}" for key, value in row.items() if key not in ("task", "class"))
    numbers = "  ".join(f"{100 * row['task'][str(p)]:6.2f}/{100 * row['class'][str(p)]:6.2f}" for p in SIZES)
    return f"{what:34} {numbers}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, help="where data sets lie")
    parser.add_argument("--name", help="of the run in the result file; by default its benchmark, method and preset")
    parser.add_argument("--weights", default="0.01,0.1,1,10", help="of the distance term")
    options = parser.parse_args()
    torch.set_num_threads(1)
    result, learner, stream = trained(options.run, options.data)
    print(f"{result.name}, on {result.evaluated_on}: task/class accuracy at p = {', '.join(map(str, SIZES))}")
    rows = []
    for chosen in family([float(weight) for weight in options.weights.split(",")]):
        rows.append(measure(learner, stream, chosen, seed=result.config["seeds"]["continua"]))
        print(shown(rows[-1]), flush=True)
    path = RESULTS / "task-scores.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    name = options.name or f"{result.benchmark}, {result.method}, {result.preset}, {result.evaluated_on}"
    runs[name] = {"seed": result.seed, "evaluated_on": result.evaluated_on, "memory": result.memory_unit, "rows": rows}
    print(write("task-scores", {"runs": runs}))


if __name__ == "__main__":
    main()
