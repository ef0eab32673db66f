"""Draw the paper's Figure 6 from benchmarks/results/: CIFAR-100 in ten tasks, at p=20 and at p=1, after each task.

usage: python benchmarks/figure6.py

Writes docs/figures/figure6-cifar100-10.svg with every iTAML preset that was run with a memory of 2,000 images, the
authors' log, and at p=1 the last accuracies that were published for other methods with ResNet-32 (authors_curves.py);
and figure6-cifar100-10-16px-plain.svg with all methods at equal effort on small images, and the authors' log.
"""

from __future__ import annotations

from dataclasses import replace

import authors_curves
from figure5 import ROOT, beside, groups_of, save

from itaml.experiment.result import load_result
from itaml.report.charts import panels_chart
from itaml.report.figures import accuracy_panels
from itaml.report.svg import Chart

FULL, SMALL, TASKS = "cifar100-10", "cifar100-10-16px-plain", 10


def figure6(folder: str) -> Chart:
    """Draw the two panels from a folder of benchmarks/results/."""
    files = (ROOT / "benchmarks" / "results" / folder).glob("*-seed*.json")
    in_images = (path for path in files if load_result(path).memory_unit == "images")  # as everything beside them
    groups = groups_of(folder, sorted({path.stem.rpartition("-seed")[0] for path in in_images}))
    panels = accuracy_panels(groups, 20)
    logs = {
        p: authors_curves.curve("the authors' log", values, tasks=TASKS) for p, values in authors_curves.CIFAR.items()
    }
    published = authors_curves.PUBLISHED_P1 if folder == FULL else {}
    others = [
        authors_curves.curve(f"{name}, published", [value], tasks=TASKS, style=len(groups) + index)
        for index, (name, value) in enumerate(published.items())
    ]
    return panels_chart(
        [
            replace(beside(panels["class-p20"], [logs["20"]]), title="Class accuracy, p = 20"),
            replace(beside(panels["class-p1"], [logs["1"], *others]), title="Class accuracy, p = 1"),
        ]
    )


if __name__ == "__main__":
    for name in (FULL, SMALL):
        print(save(figure6(name), f"figure6-{name}"))
