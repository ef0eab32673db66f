r"""Compare methods at equal effort: one recipe for all, and a learning rate for each by the same number of trials.

usage: python benchmarks/equal_effort.py rates BENCHMARK DATA_ROOT RUNS [--methods a,b:preset]
       python benchmarks/equal_effort.py runs BENCHMARK DATA_ROOT RUNS --recipe plain [--methods ...] [--seeds 0,1,2] \
           [--precision fp32]

`rates` tries the same pairs of optimizer and learning rate for every method, with recipe `plain` and seed
0, on a part of the training images (a tenth for MNIST) with a memory of the same share, and evaluates on the other
training images. The pair with the best mean of class accuracy at p=1 and p=20 is the method's in the recipe's file
(src/itaml/recipes); the recipe's own pair is kept unless another is better by more than half a point. Writes
benchmarks/results/equal-effort-rates-BENCHMARK.json. `runs` trains on all training images, evaluates on the test images
and writes benchmarks/results/BENCHMARK-RECIPE/, apart from runs whose settings are those of a result that is there
already; runs that failed are listed in its failures.json. Finished runs in RUNS are kept. Give all runs of a table the
same `--precision`: `auto` depends on the CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Literal

import torch
from effort_tables import FAILURES, matching, targets
from kept_runs import failure, train
from timing import RESULTS, write

from itaml.config import Compute
from itaml.data.benchmarks import benchmark
from itaml.experiment.result import NAME, Result
from itaml.experiment.run_config import RunConfig, completed, resolve
from itaml.learners import LEARNERS
from itaml.storage import write_atomically

ADAM: dict[str, Any] = {"optimizer": "adam", "lr": 0.001, "momentum": 0.0}
SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.05, "momentum": 0.9}
NOT_COUNTED: dict[str, Any] = {
    "optimizer": "adam",
    "lr": 0.0003,
    "momentum": 0.0,
}  # tried for some methods only; listed, never chosen
MARGIN = 0.005  # of the score
VALIDATION = {"mnist-5": 0.9}  # share of the training images that trials are evaluated on


def candidates(name: str) -> tuple[dict[str, Any], ...]:
    """Return the pairs to try: the recipe's own first, which is kept unless another is better by more than MARGIN."""
    own = resolve(name, recipe="plain", preset="best").settings["optimizer"]
    return (ADAM, SGD) if own == "adam" else (SGD, ADAM)


def compute(name: str, precision: Literal["auto", "fp32", "bf16"] = "auto") -> Compute:
    """Return how a benchmark is computed: by default in bfloat16 for convolutions, if the CPU is faster with it."""
    return Compute(precision="fp32" if benchmark(name).model == "mlp" else precision)


def trial(name: str, target: str, candidate: dict[str, Any]) -> RunConfig:
    """Return the run of a trial."""
    method, _, preset = target.partition(":")
    validation = VALIDATION.get(name, 0.2)
    own = dict(candidate)
    if resolve(name, method=method, preset=preset).settings.get("memory"):
        own["memory"] = round(benchmark(name).memory * (1 - validation))
    return resolve(
        name, method=method, preset=preset, recipe="plain", overrides=own, validation=validation, compute=compute(name)
    )


def folder_of(config: RunConfig, runs: Path) -> Path:
    """Return the folder of a run: that of an earlier run with the same settings, whatever the recipe is today."""
    for path in sorted((runs / config.benchmark).glob(f"{config.method}-*/config.json")):
        saved = completed(json.loads(path.read_text(encoding="utf-8")))
        same = (saved["seed"], saved["validation"]) == (config.seed, config.validation)
        if same and saved["method"] == config.method and saved["settings"] == config.settings:
            return path.parent
    text = config.model_dump_json(exclude={"preset", "recipe"})
    return runs / config.benchmark / f"{config.method}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def trial_numbers(config: RunConfig, runs: Path) -> dict[str, Any] | None:
    """Return the numbers of a finished trial."""
    folder = folder_of(config, runs)
    failed = failure(folder)
    if failed is not None:
        return {"failed": failed, "score": -1.0}
    if not (folder / NAME).exists():
        return None
    final = Result.load(folder).final
    numbers = {f"class@{p}": round(at.classes, 4) for p, at in final.continuum.items()}
    return {**numbers, "score": round(sum(numbers.values()) / len(numbers), 4)}


def tried(name: str) -> dict[str, Any]:
    """Return the trials of each method that are in the result file already."""
    file = RESULTS / f"equal-effort-rates-{name}.json"
    methods: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["methods"] if file.exists() else {}
    return methods


def collect_rates(name: str, runs: Path) -> None:
    """Write the trials of all methods that are complete, with the pair that won, beside those of other methods."""
    found = tried(name)
    for target in targets():
        if not LEARNERS.load(target.partition(":")[0]).traits.trains_gradients:
            continue
        rows = [(candidate, trial_numbers(trial(name, target, candidate), runs)) for candidate in candidates(name)]
        if all(numbers is not None for _, numbers in rows):
            trials = [{**candidate, **(numbers or {})} for candidate, numbers in rows]
            best = max(trials, key=lambda row: row["score"])
            kept = trials[0] if best["score"] - trials[0]["score"] <= MARGIN else best
            found[target] = {"chosen": {key: kept[key] for key in ADAM}, "trials": trials}
            other = trial_numbers(trial(name, target, NOT_COUNTED), runs)
            if other is not None:
                found[target]["not_counted"] = {**NOT_COUNTED, **other}
    share = VALIDATION.get(name, 0.2)
    write(
        f"equal-effort-rates-{name}",
        {
            "benchmark": name,
            "recipe": "plain",
            "seed": 0,
            "evaluated_on": f"{share:g} of the training data",
            "methods": found,
        },
    )


def keep_failure(file: Path, target: str, seed: int, why: str) -> None:
    """Write why a run failed to the file of a table's failed runs."""
    failures = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    failures.setdefault(target, {})[str(seed)] = why
    write_atomically(file, (json.dumps(failures, indent=1, sort_keys=True) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rates", "runs", "collect"))
    parser.add_argument("benchmark")
    parser.add_argument("data_root", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--recipe", default="plain")
    parser.add_argument("--methods", default="")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [one if ":" in one else f"{one}:best" for one in options.methods.split(",") if one] or targets()
    if options.what == "rates":
        for target in chosen:
            trains = LEARNERS.load(target.partition(":")[0]).traits.trains_gradients
            if trains and target not in tried(options.benchmark):
                for candidate in candidates(options.benchmark):
                    config = trial(options.benchmark, target, candidate)
                    train(config, folder_of(config, options.runs), options.data_root)
    if options.what in ("rates", "collect"):
        collect_rates(options.benchmark, options.runs)
        return
    folder = RESULTS / f"{options.benchmark}-{options.recipe}"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in map(int, options.seeds.split(",")):
        for target in chosen:
            method, _, preset = target.partition(":")
            config = resolve(
                options.benchmark,
                method=method,
                preset=preset,
                recipe=options.recipe,
                seed=seed,
                compute=compute(options.benchmark, options.precision),
            )
            if matching(config):
                continue
            run = folder_of(config, options.runs)
            train(config, run, options.data_root)
            result, failed = run / NAME, failure(run)
            if result.exists():
                shutil.copy(result, folder / f"{method}-{preset}-seed{seed}.json")
            elif failed is not None:
                keep_failure(folder / FAILURES, target, seed, failed)


if __name__ == "__main__":
    main()
