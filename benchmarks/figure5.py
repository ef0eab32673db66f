"""Draw the paper's Figure 5 from benchmarks/results/: iTAML, Reptile, FOMAML and joint training in three settings.

usage: python benchmarks/figure5.py [BENCHMARK ...]

Writes docs/figures/figure5-BENCHMARK.svg for every benchmark named (digits, mnist-5 and cifar100-10 if none is), after
each task: task unknown and p samples together, task told, neither task nor adaptation. Methods without results are left
out. The authors' values stand beside ours where their logs have them (authors_curves.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import authors_curves

from itaml.experiment.result import load_result
from itaml.report.charts import Panel, Series, panels_chart, percent_range
from itaml.report.figures import accuracy_panels
from itaml.report.summary import Group
from itaml.report.svg import Chart, to_svg
from itaml.storage import write_atomically

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("itaml-best", "itaml-paper", "reptile-best", "fomaml-best", "joint-best")
SEEDS = (0, 1, 2)
TITLES = ("Task-agnostic, p = {p}", "Task-aware", "No inference update")


def groups_of(benchmark: str, methods: Sequence[str] = METHODS) -> list[Group]:
    """Return the results of a benchmark, grouped by method."""
    folder = ROOT / "benchmarks" / "results" / benchmark
    groups = []
    for method in methods:
        files = [folder / f"{method}-seed{seed}.json" for seed in SEEDS]
        runs = tuple(load_result(file) for file in files if file.is_file())
        groups += [Group(method.removesuffix("-best"), runs)] if runs else []
    if not groups:
        sys.exit(f"no results in {folder}: run `itaml compare {benchmark} --figure5 --seeds 0,1,2` and copy them there")
    return groups


def beside(panel: Panel, lines: Sequence[Series]) -> Panel:
    """Return a panel with more lines, instead of the published ones that it has, on an axis that holds all of them."""
    series = [line for line in panel.series if line.style >= 0 or not lines]
    return replace(panel, series=[*series, *lines], y_range=percent_range([*series, *lines]))


def authors(benchmark: str, number: int, first_style: int) -> list[Series]:
    """Return the authors' values for the panel of that number."""
    if benchmark == "mnist-5" and number == 0:
        return [authors_curves.curve("the authors' log", authors_curves.MNIST["20"], tasks=5)]
    if benchmark != "cifar100-10":
        return []
    return [
        authors_curves.curve(f"{name}, the authors' log", [values[number]], tasks=10, style=first_style + index)
        for index, (name, values) in enumerate(authors_curves.FIGURE5.items())
    ]


def figure5(benchmark: str) -> Chart:
    """Draw the three panels."""
    groups = groups_of(benchmark)
    p = max(one.first.p for one in groups)
    panels = accuracy_panels(groups, p)
    drawn = []
    for number, (key, title) in enumerate(zip((f"class-p{p}", "task-aware", "no-update"), TITLES, strict=True)):
        if key in panels:
            panel = beside(panels[key], authors(benchmark, number, len(groups)))
            drawn.append(replace(panel, title=title.format(p=p)))
    return panels_chart(drawn)


def save(chart: Chart, name: str) -> Path:
    """Write a figure of the documents and return its file."""
    path = ROOT / "docs" / "figures" / f"{name}.svg"
    write_atomically(path, (to_svg(chart) + "\n").encode())
    return path


if __name__ == "__main__":
    for name in sys.argv[1:] or ("digits", "mnist-5", "cifar100-10"):
        print(save(figure5(name), f"figure5-{name}"))
