"""What is written of an ablation: the plot, the table for people and for programs, and everything as JSON.

The JSON is not called `result.json`, which is the name of a run's: a folder of runs with ablations among them can be
given to `itaml report` as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from itaml._version import __version__
from itaml.report.ablation import PREDICTED, TASK, Ablation, Level
from itaml.report.bars import dot_chart
from itaml.report.charts import Panel, Series, line_chart, percent_range, shortened
from itaml.report.figures import series_of
from itaml.report.formats import written
from itaml.report.svg import Chart, to_svg
from itaml.run.knobs import CONTINUUM, is_number
from itaml.storage import write_atomically, write_json

FORMAT = 1
PLOT, MARKDOWN, CSV, NUMBERS = "plot.svg", "table.md", "table.csv", "ablation.json"
WIDE = 20  # values that are this many times apart are drawn on a logarithmic axis


def write(ablation: Ablation, folder: Path) -> Path:
    """Write everything into a folder, each file whole or not at all; return the plot's path."""
    plan = ablation.plan
    title = f"# {plan.knob.name}: {plan.knob.meaning}\n\n"
    text = f"{title}{written(ablation.table, 'markdown')}\n\n![{plot(ablation).title}]({PLOT})\n"
    write_json(folder / NUMBERS, to_json(ablation))
    write_atomically(folder / CSV, (written(ablation.table, "csv") + "\n").encode())
    write_atomically(folder / PLOT, (to_svg(plot(ablation)) + "\n").encode())
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
        "knob": plan.knob.name,
        "trained": "once a seed" if plan.once else "for every value",
        "overrides": dict(plan.overrides),
        "config": plan.plain.model_dump(mode="json", exclude={"seed", "seeds"}),
        "values": [_row(ablation, level) for level in ablation.levels],
        "left_out": list(plan.left_out),
        "environments": list(ablation.environments),
    }


def _row(ablation: Ablation, level: Level) -> dict[str, Any]:
    stats = {column.name: level.stat(column.name) for column in ablation.columns}
    return {
        "value": level.value,
        "seeds": list(level.seeds),
        "runs": [run.name for run in level.runs],
        "numbers": [dict(numbers) for numbers in level.numbers],
        "mean": {name: None if stat is None else stat.mean for name, stat in stats.items()},
        "deviation": {name: None if stat is None else stat.deviation for name, stat in stats.items()},
    }


def plot(ablation: Ablation) -> Chart:
    """Draw accuracies against the knob: lines for numbers, dots for names."""
    plan, levels = ablation.plan, list(ablation.levels)
    numbers = all(is_number(level.value) for level in levels)
    if numbers:
        levels.sort(key=lambda level: float(level.value))
    within = f"{plan.plain.benchmark}, {plan.plain.method}"
    if plan.knob.name == CONTINUUM:
        return _against_p(levels, within)
    x = [level.value if numbers else place for place, level in enumerate(levels)]
    lines = [
        series_of(f"p = {p}", x, [level.stat(f"class p={p}") for level in levels], style=style)
        for style, p in enumerate(dict.fromkeys((1, ablation.p)))
    ]
    if numbers:
        label = f"{plan.knob.name}: {plan.knob.meaning}"
        wide = x[0] > 0 and x[-1] >= WIDE * x[0]
        return _lines(lines, title=f"Class accuracy, {within}", x_label=label, y_label="class accuracy, %", log=wide)
    names = [level.label for level in levels]
    title = _fitted(f"Class accuracy by {plan.knob.name}, {within}")
    return dot_chart(names, lines, title=title, x_label="class accuracy, %", x_range=percent_range(lines))


def _against_p(levels: list[Level], within: str) -> Chart:
    sizes = [level.value for level in levels]
    lines = [
        series_of(name, sizes, [level.stat(column.name) for level in levels], style=style)
        for name, column, style in (("measured", TASK, 0), ("Algorithm 4", PREDICTED, -1))
    ]
    lines = [line for line in lines if any(value is not None for value in line.y)]
    label = "p: samples of one unknown task"
    return _lines(lines, title=f"Task accuracy, {within}", x_label=label, y_label="task accuracy, %", log=True)


def _lines(lines: list[Series], *, title: str, x_label: str, y_label: str, log: bool) -> Chart:
    x_label = f"{x_label}, log scale" if log else x_label
    return line_chart(Panel(lines, _fitted(title), x_label, y_label, percent_range(lines), log_x=log))


def _fitted(title: str) -> str:
    return shortened(title, 52)
