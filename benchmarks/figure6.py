"""Draw the paper's Figure 6 from benchmarks/results/: CIFAR-100 in ten tasks, at p=20 and at p=1, after each task.

usage: python benchmarks/figure6.py

Writes docs/figures/figure6-cifar100-10.svg with every iTAML preset that was run, the authors' log, and at p=1 the last
accuracies that were published for other methods with ResNet-32 (authors_curves.py).
"""

from __future__ import annotations

from dataclasses import replace

import authors_curves
from figure5 import ROOT, beside, groups_of, save

from itaml.report.charts import panels_chart
from itaml.report.figures import accuracy_panels
from itaml.report.svg import Chart

BENCHMARK, TASKS = "cifar100-10", 10


def figure6() -> Chart:
    """Draw the two panels."""
    files = (ROOT / "benchmarks" / "results" / BENCHMARK).glob("*-seed*.json")
    groups = groups_of(BENCHMARK, sorted({path.stem.rpartition("-seed")[0] for path in files}))
    panels = accuracy_panels(groups, 20)
    logs = {
        p: authors_curves.curve("the authors' log", values, tasks=TASKS) for p, values in authors_curves.CIFAR.items()
    }
    others = [
        authors_curves.curve(f"{name}, published", [value], tasks=TASKS, style=len(groups) + index)
        for index, (name, value) in enumerate(authors_curves.PUBLISHED_P1.items())
    ]
    return panels_chart(
        [
            replace(beside(panels["class-p20"], [logs["20"]]), title="Class accuracy, p = 20"),
            replace(beside(panels["class-p1"], [logs["1"], *others]), title="Class accuracy, p = 1"),
        ]
    )


if __name__ == "__main__":
    print(save(figure6(), f"figure6-{BENCHMARK}"))
