"""The plot of an ablation: accuracies against the values that were compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from itaml.experiment.sweep.ablation_numbers import PREDICTED, TASK, Level
from itaml.experiment.sweep.parameters import CONTINUUM, SWEEP_PARAMETERS, is_number
from itaml.report.ablation_table import Ablation, stat
from itaml.report.bars import dot_chart
from itaml.report.charts import Panel, Series, line_chart, percent_range, shortened
from itaml.report.figures import series_of
from itaml.report.svg import Chart
from itaml.safe_files import read_json

WIDE = 20  # values that are this many times apart are drawn on a logarithmic axis
TITLE = 52  # characters that fit above a chart


@dataclass(frozen=True)
class _Plot:
    """What is drawn: the levels of one sweep parameter, and where they were measured."""

    name: str
    meaning: str
    within: str  # benchmark and method
    p: int
    levels: Sequence[Level]

    def draw(self) -> Chart:
        """Draw lines for numbers, dots for names."""
        numbers = all(is_number(level.value) for level in self.levels)
        levels = sorted(self.levels, key=lambda level: float(level.value)) if numbers else list(self.levels)
        if self.name == CONTINUUM:
            return self._against_p(levels)
        x = [level.value if numbers else place for place, level in enumerate(levels)]
        lines = [
            series_of(f"p = {p}", x, [stat(level, f"class p={p}") for level in levels], style=style)
            for style, p in enumerate(dict.fromkeys((1, self.p)))
        ]
        if not numbers:
            title = shortened(f"Class accuracy by {self.name}, {self.within}", TITLE)
            names, span = [level.label for level in levels], percent_range(lines)
            return dot_chart(names, lines, title=title, x_label="class accuracy, %", x_range=span)
        label = f"{self.name}: {self.meaning}" if self.meaning else self.name
        return self._lines(lines, "class accuracy", label, log=x[0] > 0 and x[-1] >= WIDE * x[0])

    def _against_p(self, levels: Sequence[Level]) -> Chart:
        sizes = [level.value for level in levels]
        lines = [
            series_of(name, sizes, [stat(level, number) for level in levels], style=style)
            for name, number, style in (("measured", TASK, 0), ("Algorithm 4", PREDICTED, -1))
        ]
        known = [line for line in lines if line.last is not None]
        return self._lines(known, "task accuracy", "p: samples of one unknown task", log=True)

    def _lines(self, lines: list[Series], subject: str, x_label: str, *, log: bool) -> Chart:
        title = shortened(f"{subject.capitalize()}, {self.within}", TITLE)
        x_label = f"{x_label}, log scale" if log else x_label
        return line_chart(Panel(lines, title, x_label, f"{subject}, %", percent_range(lines), log_x=log))


def plot(ablation: Ablation) -> Chart:
    """Draw accuracies against the sweep parameter."""
    plan = ablation.plan
    within = f"{plan.plain.benchmark}, {plan.plain.method}"
    return _Plot(plan.parameter.name, plan.parameter.meaning, within, ablation.p, ablation.levels).draw()


def plot_of_file(file: Path) -> Chart:
    """Draw the same plot from an `ablation.json`.

    Raises:
        CheckpointError: the file cannot be read.
    """
    value = read_json(file)
    name = value["parameter"]
    levels = [Level(row["value"], tuple(row["seeds"]), tuple(row["numbers"]), ()) for row in value["values"]]
    meaning = SWEEP_PARAMETERS[name].meaning if name in SWEEP_PARAMETERS else ""
    return _Plot(name, meaning, f"{value['benchmark']}, {value['method']}", max(value["config"]["p"]), levels).draw()
