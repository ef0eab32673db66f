"""Read result files, and write their numbers as cells of Markdown tables."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
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
