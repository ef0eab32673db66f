"""The figures that compare methods: which numbers of which groups go into which chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from itaml.experiment.result import TaskRow
from itaml.metrics.metric import MEGABYTES, SECONDS, Metric
from itaml.metrics.metric_registry import metrics
from itaml.report import published
from itaml.report.charts import Panel, Series, Value, line_chart, panels_chart, percent_range
from itaml.report.summary import Group, Stat
from itaml.report.svg import Chart

Number = Callable[[TaskRow], float | None]


def accuracy_panels(groups: Sequence[Group], p: int) -> dict[str, Panel]:
    """Return the metrics that are plotted after each task, by names that can be part of a file's name."""
    sizes = {f"class p={size}": size for size in (1, p)}  # metrics that others have published
    plotted = [metric for metric in metrics({1, p}) if metric.plotted]
    lines = {metric: _lines(groups, metric.after, sizes.get(metric.name)) for metric in plotted}
    span = percent_range(line for some in lines.values() for line in some)
    return {
        metric.key.replace("_", "-"): Panel(some, _title(metric), "tasks learned", "accuracy, %", span)
        for metric, some in lines.items()
        if some
    }


def _title(metric: Metric) -> str:
    return metric.title[0].upper() + metric.title[1:].replace("p=", "p = ")


def axis_ranges(panels: Mapping[str, Panel]) -> dict[str, list[Chart]]:
    """Draw panels without legends once for each range of the accuracy axis that a reader can choose."""
    spans: dict[str, dict[str, tuple[float, float] | None]] = {
        "all methods": {name: panel.y_range for name, panel in panels.items()},
        "better half": {name: _better_half(panel.series) for name, panel in panels.items()},
        "0 to 100 %": dict.fromkeys(panels, (0.0, 100.0)),
    }
    chosen = {label: span for n, (label, span) in enumerate(spans.items()) if span not in list(spans.values())[:n]}
    return {
        label: [line_chart(replace(panel, y_range=span[name]), legend=False) for name, panel in panels.items()]
        for label, span in chosen.items()
    }


def _better_half(series: Sequence[Series]) -> tuple[float, float]:
    """Return a range of per cent, in steps of 5, around the better half of the lines."""
    ends = sorted((line for line in series if line.style >= 0), key=lambda line: line.last or 0.0, reverse=True)
    half = ends[: max(2, math.ceil(len(ends) / 2))]
    values = [v for line in half for part in (line.y, line.low, line.high) for v in part if v is not None] or [0.0]
    low, high = math.floor((min(values) - 1) / 5) * 5, math.ceil((max(values) + 1) / 5) * 5
    return (float(max(0, low)), float(min(100, high)))


def figure5(groups: Sequence[Group], p: int) -> Chart:
    """Draw the three panels of the paper's Figure 5 side by side, as far as the methods have them."""
    titles = {
        f"class-p{p}": f"Task-agnostic, p = {p}",
        "task-aware": "Task-aware",
        "no-update": "No inference update",
    }
    panels = accuracy_panels(groups, p)
    return panels_chart([replace(panels[name], title=title) for name, title in titles.items() if name in panels])


def cost_panels(groups: Sequence[Group]) -> dict[str, Panel]:
    """Return training seconds and peak memory of each task."""

    def panel(metric: Metric, y_label: str) -> Panel:
        lines = [
            series_of(one.label, range(1, one.tasks + 1), one.after_each_task(metric.after), style=style, scale=1.0)
            for style, one in enumerate(groups)
        ]
        return Panel(lines, f"{_title(metric)} by task", "task", y_label)

    units = {SECONDS: ("time", "seconds"), MEGABYTES: ("memory", "megabytes")}
    found = {units[metric.format]: metric for metric in metrics(()) if metric.format in units}
    return {name: panel(metric, unit) for (name, unit), metric in sorted(found.items(), reverse=True)}


def series_of(
    name: str, x: Sequence[float], stats: Sequence[Stat | None], *, style: int, scale: float = 100.0
) -> Series:
    """Return the line of means, with a band of one standard deviation where there are several seeds."""

    def values(part: Callable[[Stat], float]) -> list[Value]:
        return [None if stat is None else scale * part(stat) for stat in stats]

    means = values(lambda stat: stat.mean)
    if not any(stat and stat.std is not None for stat in stats):
        return Series(name, list(x), means, style=style)
    top = 1.0 if scale == 100 else float("inf")
    low = values(lambda stat: max(0.0, stat.mean - (stat.std or 0.0)))
    high = values(lambda stat: min(top, stat.mean + (stat.std or 0.0)))
    return Series(name, list(x), means, low, high, style=style)


def _lines(groups: Sequence[Group], number: Number, p: int | None) -> list[Series]:
    lines = [
        series_of(one.label, range(1, one.tasks + 1), one.after_each_task(number), style=style)
        for style, one in enumerate(groups)
    ]
    lines = [line for line in lines if line.last is not None]
    return lines + (_published(groups, p) if p is not None else [])


def _published(groups: Sequence[Group], p: int) -> list[Series]:
    """Return what was published for the methods shown, at this p: a curve, or its last point."""
    found = []
    for method in dict.fromkeys(one.first.method for one in groups if one.first.memory_unit == "images"):
        figure = published.figure(groups[0].first.benchmark, method, p=p)
        if figure is None:
            continue
        last = max(one.tasks for one in groups)
        values = figure.curve or (figure.value,)
        steps = range(1, len(values) + 1) if figure.curve else (last,)
        found.append(Series(f"{method}, published", list(steps), [100 * value for value in values], style=-1))
    return found
