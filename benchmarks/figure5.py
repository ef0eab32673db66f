"""Draw the paper's Figure 5 from benchmarks/results/: iTAML, Reptile, FOMAML and joint training in three settings.

usage: python benchmarks/figure5.py [BENCHMARK ...]

Writes docs/figures/figure5-BENCHMARK.svg for every benchmark named (digits and mnist-5 if none is), after each task:
task unknown and p samples together, task told, neither task nor adaptation. Methods without results are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from itaml.experiment.result import load_result
from itaml.report.figures import figure5
from itaml.report.summary import group
from itaml.report.svg import to_svg
from itaml.storage import write_atomically

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("itaml-best", "itaml-paper", "reptile-best", "fomaml-best", "joint-best")
SEEDS = (0, 1, 2)


def draw(benchmark: str) -> Path:
    """Draw the figure of a benchmark and return its file."""
    folder = ROOT / "benchmarks" / "results" / benchmark
    files = [folder / f"{method}-seed{seed}.json" for method in METHODS for seed in SEEDS]
    groups = group([load_result(file) for file in files if file.is_file()])
    if not groups:
        sys.exit(f"no results in {folder}: run `itaml compare {benchmark} --figure5 --seeds 0,1,2` and copy them there")
    path = ROOT / "docs" / "figures" / f"figure5-{benchmark}.svg"
    chart = figure5(groups, max(one.first.p for one in groups))
    write_atomically(path, (to_svg(chart) + "\n").encode())
    return path


if __name__ == "__main__":
    for name in sys.argv[1:] or ("digits", "mnist-5"):
        print(draw(name))
