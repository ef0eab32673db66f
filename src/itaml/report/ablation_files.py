"""The files of an ablation: the plot, the table for people and for programs, and everything as JSON.

The JSON is not called `result.json`, which is the name of a run's: a folder of runs with ablations among them can be
given to `itaml report` as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from itaml._version import __version__
from itaml.experiment.sweep.ablation_numbers import Level
from itaml.report.ablation_plot import plot
from itaml.report.ablation_table import Ablation, stat
from itaml.report.formats import written
from itaml.report.svg import to_svg
from itaml.storage import write_atomically, write_json

FORMAT = 1
PLOT, MARKDOWN, CSV, NUMBERS = "plot.svg", "table.md", "table.csv", "ablation.json"


def write(ablation: Ablation, folder: Path) -> Path:
    """Write everything into a folder, each file whole or not at all; return the plot's path."""
    plan = ablation.plan
    title = f"# {plan.parameter.name}: {plan.parameter.meaning}\n\n"
    chart = plot(ablation)
    text = f"{title}{written(ablation.table, 'markdown')}\n\n![{chart.title}]({PLOT})\n"
    write_json(folder / NUMBERS, to_json(ablation))
    write_atomically(folder / CSV, (written(ablation.table, "csv") + "\n").encode())
    write_atomically(folder / PLOT, (to_svg(chart) + "\n").encode())
    write_atomically(folder / MARKDOWN, text.encode())
    return folder / PLOT


def to_json(ablation: Ablation) -> dict[str, Any]:
    """Return the numbers, the settings and the versions, as plain values; fractions are not rounded."""
    plan = ablation.plan
    return {
        "format": FORMAT,
        "itaml": __version__,
        "benchmark": plan.plain.benchmark,
        "method": plan.plain.method,
        "preset": plan.plain.preset,
        "parameter": plan.parameter.name,
        "trained": "once per seed" if plan.once else "for every value",
        "overrides": dict(plan.overrides),
        "config": plan.plain.model_dump(mode="json", exclude={"seed", "seeds"}),
        "values": [_row(ablation, level) for level in ablation.levels],
        "left_out": list(plan.left_out),
        "environments": list(ablation.measured.environments),
    }


def _row(ablation: Ablation, level: Level) -> dict[str, Any]:
    stats = {column.name: stat(level, column.name) for column in ablation.columns}
    return {
        "value": level.value,
        "seeds": list(level.seeds),
        "runs": [run.name for run in level.runs],
        "numbers": [dict(numbers) for numbers in level.numbers],
        "mean": {name: None if one is None else one.mean for name, one in stats.items()},
        "std": {name: None if one is None else one.std for name, one in stats.items()},
    }
