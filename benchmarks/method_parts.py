"""What every page of a method has: its paper, its command, its code, its results and its learning curve.

usage: python benchmarks/method_parts.py    # draws docs/figures/methods/METHOD.svg for every method with results
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from document_parts import RESULTS, cell, load, runs, table

from itaml.learners import LEARNERS
from itaml.metrics.metric_registry import metrics
from itaml.report.charts import Panel, line_chart, percent_range
from itaml.report.figures import series_of
from itaml.report.summary import group
from itaml.report.svg import to_svg
from itaml.storage import write_atomically

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures" / "methods"
FIRST = ("digits", "mnist-5")  # benchmarks of the tables, then all others by name
NOT_BENCHMARKS = {"ablations", "digits-scores", "photos"}
COLUMNS = ("class@1", "class@20", "task@20", "task-aware")
SHOWN = ("class p=1", "class p=20", "task-aware")  # curves of a figure
PAPERS = {
    "itaml": "arXiv 2003.11652",
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
    root = "../" if method == "itaml" else "../../"
    lines = [f"- command: `itaml run mnist-5 --method {method}`"]
    if method in PAPERS:
        kind, number = PAPERS[method].split()
        address = f"https://arxiv.org/abs/{number}" if kind == "arXiv" else f"https://doi.org/{number}"
        lines.insert(0, f"- paper: [{PAPERS[method]}]({address})")
    lines.append(f"- code: {_code(method, root)}")
    parts = ["\n".join(lines)]
    rows = _rows(method)
    if rows:
        parts.append(table(["benchmark", "preset", "seeds", *COLUMNS], rows))
    parts += _on_features(method)
    if (FIGURES / f"{method}.svg").exists():
        text = f"Accuracy of {method} on split MNIST after each task"
        parts.append(f"![{text}]({root.removeprefix('../')}figures/methods/{method}.svg)")
    return "\n\n".join(parts)


def _rows(method: str) -> list[list[str]]:
    folders = {path.name for path in RESULTS.iterdir() if path.is_dir()} - NOT_BENCHMARKS - {*FIRST}
    rows = []
    for benchmark in (*FIRST, *sorted(folders)):
        for variant in _variants(benchmark, method):
            results = runs(benchmark, method, variant)
            numbers = [cell(results, column) for column in COLUMNS]
            rows.append([f"`{benchmark}`", f"`{variant}`", str(len(results)), *numbers])
    return rows


def _variants(benchmark: str, method: str) -> list[str]:
    """Return the presets and variants of a method that were run on a benchmark, `best` first."""
    found = set()
    for path in (RESULTS / benchmark).glob("*-seed*.json"):
        name = re.sub(r"-seed\d+$", "", path.stem)
        longest = max((m for m in LEARNERS.names() if name.startswith(f"{m}-")), key=len, default=None)
        if longest == method:
            found.add(name.removeprefix(f"{method}-"))
    return sorted(found, key=lambda name: (name != "best", name))


def _on_features(method: str) -> list[str]:
    """Return the class accuracy on the features of a pretrained backbone, if it was measured."""
    found = load("photos/incremental")
    settings, rows = found["settings"], []
    for name, results in found["results"].items():
        if method in results:
            numbers = [f"{100 * results[method]['class'][str(p)]:.1f}" for p in settings["p"]]
            rows.append([name, str(settings["sets"][name]["tasks"]), *numbers])
    if not rows:
        return []
    text = (
        f"On the features of a frozen `{settings['backbone']}`, class accuracy in per cent (one seed;"
        " [Photos](PHOTOS) has the protocol):"
    ).replace("PHOTOS", "photos.md" if method == "itaml" else "../photos.md")
    return [text, table(["images", "tasks", *(f"p = {p}" for p in settings["p"])], rows)]


def _code(method: str, root: str) -> str:
    """Return links to the file of a method, to the line of its class and to those of its functions."""
    module, _, name = LEARNERS.entry(method).target.partition(":")
    file = Path("src", *module.split(".")).with_suffix(".py")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    public: list[ast.ClassDef | ast.FunctionDef] = [cls]
    public += [item for item in cls.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]
    links = [f"[`{item.name}`]({root}{file}#L{item.lineno})" for item in public]
    return ", ".join([f"[`{file.name}`]({root}{file})", *links])


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
