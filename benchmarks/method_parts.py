"""What every page of a method has: its paper, its command, its code, its results and its learning curve.

usage: python benchmarks/method_parts.py    # draws docs/figures/methods/METHOD.svg for every method with results
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from document_parts import cell, runs, table

from itaml.config import presets
from itaml.learners import LEARNERS
from itaml.metrics.metric_registry import metrics
from itaml.report.charts import Panel, line_chart, percent_range
from itaml.report.figures import series_of
from itaml.report.summary import group
from itaml.report.svg import to_svg
from itaml.storage import write_atomically

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures" / "methods"
BENCHMARKS = ("digits", "mnist-5", "svhn10k-5", "cifar100-10-16px", "cifar100-10", "tiny-imagenet-10")
COLUMNS = ("class@1", "class@20", "task@20", "task-aware")
SHOWN = ("class p=1", "class p=20", "task-aware")  # curves of a figure
PAPERS = {
    "ewc": "arXiv 1612.00796",
    "online-ewc": "arXiv 1805.06370",
    "si": "arXiv 1703.04200",
    "mas": "arXiv 1711.09601",
    "rwalk": "arXiv 1801.10112",
    "lwf": "arXiv 1606.09282",
    "finetune": "arXiv 1606.09282",
    "gem": "arXiv 1706.08840",
    "icarl": "arXiv 1611.07725",
    "fixedrep": "arXiv 1611.07725",
    "bic": "arXiv 1905.13260",
    "reptile": "arXiv 1803.02999",
    "fomaml": "arXiv 1703.03400",
    "dgr": "arXiv 1705.08690",
    "rtf": "arXiv 1809.10635",
    "dmc": "arXiv 1903.07864",
    "rpsnet": "arXiv 1906.01120",
    "replay": "arXiv 1810.12488",
    "ranpac": "arXiv 2307.02251",
    "lda": "arXiv 1909.01520",
    "ncm": "doi 10.1109/TPAMI.2013.83",
}


def method_part(method: str) -> str:
    """Return the part of a method's page that follows from the code and the result files."""
    lines = [f"- command: `itaml run mnist-5 --method {method}`"]
    if method in PAPERS:
        kind, number = PAPERS[method].split()
        address = f"https://arxiv.org/abs/{number}" if kind == "arXiv" else f"https://doi.org/{number}"
        lines.insert(0, f"- paper: [{PAPERS[method]}]({address})")
    lines.append(f"- code: {_code(method)}")
    parts = ["\n".join(lines)]
    rows = _rows(method)
    if rows:
        parts.append(table(["benchmark", "preset", "seeds", *COLUMNS], rows))
    if (FIGURES / f"{method}.svg").exists():
        text = f"Accuracy of {method} on split MNIST after each task"
        parts.append(f"![{text}](../figures/methods/{method}.svg)")
    return "\n\n".join(parts)


def _rows(method: str) -> list[list[str]]:
    rows = []
    for benchmark in BENCHMARKS:
        for preset in presets(method):
            results = runs(benchmark, method, preset)
            if results:
                numbers = [cell(results, column) for column in COLUMNS]
                rows.append([f"`{benchmark}`", f"`{preset}`", str(len(results)), *numbers])
    return rows


def _code(method: str) -> str:
    """Return links to the file of a method and to the lines of its functions."""
    module, _, name = LEARNERS.entry(method).target.partition(":")
    file = Path("src", *module.split(".")).with_suffix(".py")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    public = [item for item in cls.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    links = [f"[`{file.name}`](../../{file})", *(f"[`{item.name}`](../../{file}#L{item.lineno})" for item in public)]
    return ", ".join(links)


def draw(method: str) -> Path | None:
    """Draw the learning curve of a method on split MNIST; None without results."""
    results = runs("mnist-5", method, "best")
    if not results:
        return None
    (one,) = group(results)
    chosen = [metric for metric in metrics((1, 20)) if metric.name in SHOWN]
    steps = range(1, one.tasks + 1)
    lines = [series_of(m.name, steps, one.after_each_task(m.after), style=n) for n, m in enumerate(chosen)]
    known = [line for line in lines if line.last is not None]
    panel = Panel(known, f"{method} on split MNIST", "task", "accuracy in %", percent_range(known))
    path = FIGURES / f"{method}.svg"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, (to_svg(line_chart(panel)) + "\n").encode())
    return path


if __name__ == "__main__":
    for name in sys.argv[1:] or LEARNERS.names():
        print(draw(name) or f"no results of {name} on mnist-5")
