"""Fill the tables of the documents from benchmarks/results/*.json.

usage: python benchmarks/documents.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; a single number follows `<!-- result: BENCHMARK METHOD
PRESET METRIC -->` to the end of its line. With --check nothing is written, and the exit code says whether all is well.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
METRICS: dict[str, Callable[[dict[str, Any]], float]] = {
    "class@1": lambda final: final["continuum"]["1"]["class"],
    "class@20": lambda final: final["continuum"]["20"]["class"],
    "task@1": lambda final: final["continuum"]["1"]["task"],
    "task@20": lambda final: final["continuum"]["20"]["task"],
    "task-aware": lambda final: final["task_aware"],
    "no-update": lambda final: final["no_update"],
    "average@1": lambda final: final["average_incremental"]["1"],
    "average@20": lambda final: final["average_incremental"]["20"],
    "forgetting": lambda final: final["forgetting"],
}


def runs(benchmark: str, method: str, preset: str) -> list[dict[str, Any]]:
    """Return the results of all seeds of a method; the preset is as in the files' names."""
    paths = sorted((RESULTS / benchmark).glob(f"{method}-{preset}-seed*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def summary(values: list[float]) -> str:
    """Return mean and deviation in per cent."""
    percents = [100 * value for value in values]
    if len(percents) == 1:
        return f"{percents[0]:.2f}"
    return f"{statistics.mean(percents):.2f} ± {statistics.stdev(percents):.2f}"


def cell(results: list[dict[str, Any]], metric: str) -> str:
    """Return one number of a table, a dash without runs."""
    return summary([METRICS[metric](result["final"]) for result in results]) if results else "-"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def load(name: str) -> dict[str, Any]:
    """Return a result file that is no run's."""
    value: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return value


def with_quartiles(ratio: dict[str, Any]) -> str:
    """Return a ratio with its spread."""
    low, high = ratio["quartiles"]
    return f"{ratio['median']:.2f} ({low:.2f}, {high:.2f})"


def step_ratio() -> str:
    ratios = load("step-ratio")["ratios"]
    return table(
        ["network", "tasks seen", "fused / joint (quartiles)", "batched / joint", "loop / joint"],
        (
            [
                network,
                tasks,
                with_quartiles(row["fused / joint"]),
                *(f"{row[name]['median']:.2f}" if name in row else "-" for name in ("batched / joint", "loop / joint")),
            ]
            for network, by_tasks in ratios.items()
            for tasks, row in by_tasks.items()
        ),
    )


def adaptation() -> str:
    rows = []
    for row in load("adaptation")["rows"]:
        off = row["adapt_scope"] == "off"
        how = "none" if off else f"{row['adapt_scope']}, {row['adapt_optimizer']} {row['adapt_lr']:g}"
        rows.append(
            [row["network"], how, "" if off else "yes" if row["adapt_guard"] else "no", summary(row["task_aware"])]
        )
    return table(["network", "weights and optimiser", "guard", "task-aware"], rows)


def presets() -> str:
    metrics = ["class@1", "class@20", "task@20", "task-aware", "no-update"]
    rows = []
    for benchmark in ("digits", "mnist-5"):
        for preset in ("best", "best-in-bf16", "paper", "released"):
            results = runs(benchmark, "itaml", preset)
            if not results and preset == "best-in-bf16":
                continue  # measured on digits alone
            rows.append([benchmark, preset, str(len(results)), *(cell(results, metric) for metric in metrics)])
    return table(["benchmark", "preset", "seeds", *metrics], rows)


def released() -> str:
    rows = []
    for run in load("released-mnist")["runs"]:
        each = [100 * task["continuum"]["1"]["class"] for task in run["tasks"]]
        rows.append([str(run["seed"]), ", ".join(f"{value:.1f}" for value in each), run["ended"].partition(":")[0]])
    return table(["seed", "class@1 after each task", "then"], rows)


def rescue() -> str:
    metrics = ["task@1", "task@20", "class@20"]
    rows = []
    for negatives in ("own", "seen"):
        for score in ("max-logit", "log-posterior", "calibrated"):
            results = runs("digits-scores", "itaml", f"{negatives}-{score}")
            rows.append([negatives, score, str(len(results)), *(cell(results, metric) for metric in metrics)])
    return table(["negatives", "task score", "seeds", *metrics], rows)


def comparison(benchmark: str) -> str:
    """Return every method's numbers on a benchmark beside the published one."""
    from itaml.learners import LEARNERS
    from itaml.report.published import figures

    metrics = ["class@1", "class@20", "task@20", "task-aware"]
    rows = []
    for method in LEARNERS.names():
        published = figures(benchmark, method)
        shown = f"{100 * published[0].value:.2f} (p={published[0].p})" if published else "-"
        names = {re.sub(r"-seed\d+$", "", path.stem) for path in (RESULTS / benchmark).glob(f"{method}-*-seed*.json")}
        for name in sorted(names):
            preset = name.removeprefix(f"{method}-")
            results = [r for r in runs(benchmark, method, preset) if r["method"] == method]
            if not results:
                continue
            seconds = statistics.mean(t["train_seconds"] for r in results for t in r["tasks"])
            numbers = [cell(results, metric) for metric in metrics]
            rows.append([f"`{method}`", preset, str(len(results)), *numbers, f"{seconds:.1f}", shown])
    return table(["method", "preset", "seeds", *metrics, "seconds a task", "published class accuracy"], rows)


def headline() -> str:
    """Return iTAML's own numbers on the paper's data sets that were measured, beside the paper's."""
    from itaml.report.published import figures

    rows = []
    for benchmark in ("mnist-5", "cifar100-10"):
        results, (published, *_) = runs(benchmark, "itaml", "best"), figures(benchmark, "itaml")
        numbers = [cell(results, metric) for metric in ("class@20", "class@1")]
        rows.append([f"`{benchmark}`", str(len(results)), numbers[0], f"{100 * published.value:.2f}", numbers[1]])
    return table(["benchmark", "seeds", "p=20", "the paper, p=20", "p=1"], rows)


def progress(benchmark: str, preset: str) -> str:
    """Return iTAML's accuracies after each task, mean over seeds, and their averages over tasks."""
    results = runs(benchmark, "itaml", preset)
    each = [[result["tasks"][index] for result in results] for index in range(len(results[0]["tasks"]))]
    columns = ["class@1", "class@20", "task@1", "task@20", "task-aware"]
    rows = [
        [str(number), *(summary([METRICS[name](row) for row in group]) for name in columns)]
        for number, group in enumerate(each, start=1)
    ]
    means = [[statistics.mean(map(METRICS[name], result["tasks"])) for result in results] for name in columns]
    return table(["after task", *columns], [*rows, ["average", *map(summary, means)]])


def continua(benchmark: str) -> str:
    """Return the task accuracy of iTAML's presets for growing continua beside what Algorithm 4 predicts."""
    rows = []
    for preset in ("best", "mean-over-tasks"):
        results = runs(benchmark, "itaml", preset)
        sizes = sorted(map(int, results[0]["final"]["curve"])) if results else []
        for p in sizes:
            points = [result["final"]["curve"][str(p)] for result in results]
            numbers = [summary([point[name] for point in points]) for name in ("task", "bound", "class")]
            rows.append([preset, str(p), *numbers])
    return table(["preset", "p", "task accuracy", "Algorithm 4", "class accuracy"], rows)


def ablation(name: str) -> str:
    """Return the table that `itaml ablate` wrote."""
    lines = (RESULTS / "ablations" / name / "table.md").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def ten_thousand() -> str:
    found = load("ten-thousand")
    train, evaluation = found["train_seconds"], found["memory_and_evaluation_seconds"]
    classes = found["classes"] // len(train)
    rows = [
        [str(classes * number), f"{one:.1f}", f"{other:.1f}"]
        for number, (one, other) in enumerate(zip(train, evaluation, strict=True), start=1)
    ]
    return table(["classes seen", "seconds of training", "seconds of choosing exemplars and evaluation"], rows)


def speed() -> str:
    rows = []
    for part, ratios in load("speed")["ratios"].items():
        for what, value in ratios.items():
            shown = with_quartiles(value) if "quartiles" in value else f"{value['median']:g}"
            rows.append([part, what, shown])
    for benchmark in ("mnist-5", "cifar100-10"):
        peaks = [row["peak_memory_mb"] for result in runs(benchmark, "itaml", "best") for row in result["tasks"]]
        rows.append(["memory", f"largest resident memory of `itaml run {benchmark}`, MB", f"{max(peaks):.0f}"])
    return table(["part", "ratio", "median (quartiles)"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "speed": speed,
    "step-ratio": step_ratio,
    "adaptation": adaptation,
    "presets": presets,
    "released": released,
    "rescue": rescue,
    "headline": headline,
    "mnist-5": lambda: comparison("mnist-5"),
    "digits": lambda: comparison("digits"),
    "cifar100-10": lambda: comparison("cifar100-10"),
    "cifar100-10-progress": lambda: progress("cifar100-10", "best"),
    "cifar100-10-continua": lambda: continua("cifar100-10"),
    "tiny-imagenet-10-progress": lambda: progress("tiny-imagenet-10", "best"),
    "ten-thousand": ten_thousand,
}


def filled(text: str) -> str:
    """Return a document with its tables and numbers made anew."""

    def one(match: re.Match[str]) -> str:
        benchmark, method, preset, metric = match.group(1).split()
        results = runs(benchmark, method, preset)
        seeds = f"{len(results)} seed{'s' if len(results) != 1 else ''}"
        return f"<!-- result: {match.group(1)} --> {cell(results, metric)} % ({seeds})"

    def whole(match: re.Match[str]) -> str:
        name = match.group(1)
        made = ablation(name.removeprefix("ablate-")) if name.startswith("ablate-") else TABLES[name]()
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
