"""Draw the plots of benchmarks/results/ablations again, from their numbers.

usage: python benchmarks/ablation_plots.py

Writes plot.svg beside every ablation.json, and docs/figures/continua-cifar100-10.svg, which is the plot over p.
"""

from __future__ import annotations

from pathlib import Path

from itaml.report.ablation_plot import plot_of_file
from itaml.report.svg import to_svg
from itaml.storage import write_atomically

ROOT = Path(__file__).resolve().parents[1]
ABLATIONS = ROOT / "benchmarks" / "results" / "ablations"
COPIES = {"cifar100-10-p": ROOT / "docs" / "figures" / "continua-cifar100-10.svg"}


def draw(file: Path) -> list[Path]:
    """Draw one ablation and return the files that were written."""
    content = (to_svg(plot_of_file(file)) + "\n").encode()
    paths = [file.with_name("plot.svg"), *(COPIES[name] for name in COPIES if name == file.parent.name)]
    for path in paths:
        write_atomically(path, content)
    return paths


if __name__ == "__main__":
    for found in sorted(ABLATIONS.glob("*/ablation.json")):
        print(*draw(found), sep="\n")
