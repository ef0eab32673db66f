"""Fill the tables of the documents from benchmarks/results/*.json.

usage: python benchmarks/documents.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; a single number follows `<!-- result: BENCHMARK METHOD
PRESET METRIC -->` to the end of its line. With --check nothing is written, and the exit code says whether all is well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import authors_curves
import capacity_tables
import document_tables as tables
import effort_tables
import exchange_tables
import inference_tables
import long_life
import photos_tables
import reproduction_tables as reproduction
import serve_tables
from document_parts import cell, runs
from method_parts import method_part

ROOT = Path(__file__).resolve().parents[1]
TABLES: dict[str, Callable[[], str]] = {
    "commands": tables.commands,
    "metrics": tables.metrics,
    "speed": tables.speed,
    "torchrun": tables.torchrun,
    "step-ratio": tables.step_ratio,
    "adaptation": tables.adaptation,
    "task-scores": inference_tables.task_scores,
    "adaptation-features": inference_tables.adaptation_features,
    "presets": tables.presets,
    "released": tables.released,
    "rescue": tables.rescue,
    "headline": tables.headline,
    "mnist-5": lambda: tables.comparison("mnist-5"),
    "digits": lambda: tables.comparison("digits"),
    "cifar100-10": lambda: tables.comparison("cifar100-10"),
    "cifar100-10-progress": lambda: tables.progress("cifar100-10", "best"),
    "cifar100-10-continua": lambda: tables.continua("cifar100-10"),
    "tiny-imagenet-10-progress": lambda: tables.progress("tiny-imagenet-10", "best"),
    "ten-thousand": tables.ten_thousand,
    "attacks": tables.attacks,
    "long-life": long_life.summary,
    "long-life-flat": long_life.statement,
    "peers": exchange_tables.peers,
    "reproduction-after-each-task": partial(reproduction.after_each_task, "mnist-5", authors_curves.MNIST),
    "reproduction-svhn": partial(reproduction.after_each_task, "svhn10k-5-16px", authors_curves.SVHN | {"1": []}),
    "reproduction-seeds": reproduction.seeds,
    "reproduction-optimiser": reproduction.optimiser,
    "reproduction-what-matters": reproduction.what_matters,
    "reproduction-trials": reproduction.trials,
    "cifar-trials": reproduction.cifar_trials,
    "cifar-trials-32px": partial(reproduction.cifar_trials, "cifar-trials-32px"),
    "cifar-splits": reproduction.cifar_splits,
    "cifar-inference": reproduction.cifar_inference,
    "cifar-inference-10-tasks": partial(reproduction.cifar_inference, "cifar-trials-10-tasks"),
    "store-recipe": reproduction.store_recipe,
    "reproduction-tuned": reproduction.tuned,
    "reproduction-tuned-digits": lambda: reproduction.tuned("tune-paper-digits"),
    "reproduction-authors-cifar": reproduction.authors_cifar,
    "reproduction-authors-figure5": reproduction.authors_figure5,
    "reproduction-authors-after-each-task": reproduction.authors_after_each_task,
    "capacity-basis": capacity_tables.basis,
    "capacity-costs": capacity_tables.costs,
    "capacity-predicted": capacity_tables.predicted,
    "photos-incremental": photos_tables.incremental,
    "photos-forgetting": photos_tables.forgetting,
    "photos-unknown": photos_tables.unknown,
    "photos-few": photos_tables.few,
    "photos-product": photos_tables.product,
    "photos-speed": photos_tables.speed,
    "photos-learn-speed": photos_tables.learn_speed,
    "photos-growth": photos_tables.growth,
    "photos-tuning": photos_tables.tuning,
    "serve-kills": serve_tables.kills,
    "serve-latency": serve_tables.latency,
    "serve-requirements": serve_tables.requirements,
}


def filled(text: str) -> str:
    """Return a document with its tables and numbers filled in again."""

    def one(match: re.Match[str]) -> str:
        benchmark, method, preset, metric = match.group(1).split()
        results = runs(benchmark, method, preset)
        seeds = f"{len(results)} seed{'s' if len(results) != 1 else ''}"
        return f"<!-- result: {match.group(1)} --> {cell(results, metric)} % ({seeds})"

    def whole(match: re.Match[str]) -> str:
        name = match.group(1)
        if name.startswith("ablate-"):
            made = tables.ablation(name.removeprefix("ablate-"))
        elif name.startswith("equal-effort-rates-"):
            made = effort_tables.rates(name.removeprefix("equal-effort-rates-"))
        elif name.startswith("equal-effort-"):
            made = effort_tables.comparison(*name.removeprefix("equal-effort-").rsplit("-", 1))
        elif name.startswith("method-"):
            made = method_part(name.removeprefix("method-"))
        else:
            made = TABLES[name]()
        return f"<!-- table: {name} -->\n{made}\n<!-- end -->"

    text = re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", whole, text, flags=re.DOTALL)
    return re.sub(r"<!-- result: ([^>]+?) -->[^\n]*", one, text)


def main() -> int:
    stale = []
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            stale.append(str(path.relative_to(ROOT)))
            if "--check" not in sys.argv:
                path.write_text(after, encoding="utf-8")
    print("\n".join(stale) or "all documents are up to date")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
