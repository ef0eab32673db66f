"""The figures that compare methods: which numbers of which groups go into which chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from itaml.report import published
from itaml.report.charts import Panel, Series, Value, line_chart, panels_chart, percent_range
from itaml.report.result import TaskRow
from itaml.report.summary import Group, Stat
from itaml.report.svg import Chart

Number = Callable[[TaskRow], float | None]


def accuracy_panels(groups: Sequence[Group], p: int) -> dict[str, Panel]:
    """Return accuracy after each task: alone (p = 1), and in the three settings of the paper's Figure 5."""
    wanted: dict[str, tuple[str, Number, int | None]] = {
        "class-p1": ("Class accuracy, p = 1", _class(1), 1),
        "task-agnostic": (f"Task-agnostic, p = {p}", _class(p), p),
        "task-aware": ("Task-aware", lambda row: row.task_aware, None),
        "no-update": ("No inference update", lambda row: row.no_update, None),
    }
    if p == 1:
        del wanted["class-p1"]
    lines = {name: _lines(groups, number, at) for name, (_, number, at) in wanted.items()}
    span = percent_range(line for some in lines.values() for line in some)
    return {
        name: Panel(some, wanted[name][0], "tasks learned", "accuracy, %", span) for name, some in lines.items() if some
    }


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
    return panels_chart([panel for name, panel in accuracy_panels(groups, p).items() if name != "class-p1"])


def cost_panels(groups: Sequence[Group]) -> dict[str, Panel]:
    """Return training seconds and peak memory of each task."""

    def panel(title: str, y_label: str, number: Number) -> Panel:
        lines = [
            series_of(one.label, range(1, one.tasks + 1), one.after_each_task(number), style=style, scale=1.0)
            for style, one in enumerate(groups)
        ]
        return Panel(lines, title, "task", y_label)

    return {
        "time": panel("Training time of each task", "seconds", lambda row: row.train_seconds),
        "memory": panel("Peak memory of the process so far", "megabytes", lambda row: row.peak_memory_mb),
    }


def series_of(
    name: str, x: Sequence[float], stats: Sequence[Stat | None], *, style: int, scale: float = 100.0
) -> Series:
    """Return the line of means, with a band of one standard deviation where there are several seeds."""

    def values(part: Callable[[Stat], float]) -> list[Value]:
        return [None if stat is None else scale * part(stat) for stat in stats]

    means = values(lambda stat: stat.mean)
    if not any(stat and stat.deviation is not None for stat in stats):
        return Series(name, list(x), means, style=style)
    top = 1.0 if scale == 100 else float("inf")
    low = values(lambda stat: max(0.0, stat.mean - (stat.deviation or 0.0)))
    high = values(lambda stat: min(top, stat.mean + (stat.deviation or 0.0)))
    return Series(name, list(x), means, low, high, style=style)


def _class(p: int) -> Number:
    return lambda row: row.continuum[p].classes if p in row.continuum else None


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
    for method in dict.fromkeys(one.first.method for one in groups):
        figure = published.figure(groups[0].first.benchmark, method, p=p)
        if figure is None:
            continue
        last = max(one.tasks for one in groups)
        values = figure.curve or (figure.value,)
        steps = range(1, len(values) + 1) if figure.curve else (last,)
        found.append(Series(f"{method}, published", list(steps), [100 * value for value in values], style=-1))
    return found
