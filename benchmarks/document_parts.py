"""Read result files, and write their numbers as cells of Markdown tables."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from itaml.experiment.result import Result
from itaml.metrics.metric_registry import metrics

RESULTS = Path(__file__).resolve().parent / "results"
METRICS = {metric.name.replace(" p=", "@").replace(" ", "-"): metric for metric in metrics((1, 20))}  # such as class@20


def runs(benchmark: str, method: str, preset: str) -> list[Result]:
    """Return the results of all seeds of a method; the preset is as in the files' names."""
    paths = sorted((RESULTS / benchmark).glob(f"{method}-{preset}-seed*.json"))
    return [Result.load(path) for path in paths]


def summary(values: list[float]) -> str:
    """Return mean and standard deviation in per cent."""
    percents = [100 * value for value in values]
    if len(percents) == 1:
        return f"{percents[0]:.2f}"
    return f"{statistics.mean(percents):.2f} ± {statistics.stdev(percents):.2f}"


def cell(results: list[Result], metric: str) -> str:
    """Return one number of a table, a dash without runs."""
    return summary_of_known(METRICS[metric].value_of(result) for result in results)


def summary_of_known(values: Iterable[float | None]) -> str:
    """Return mean and standard deviation of the values there are, a dash without any."""
    known = [value for value in values if value is not None]
    return summary(known) if known else "-"


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
