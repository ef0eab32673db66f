"""Line charts: series with bands of one standard deviation, alone or as panels side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from itaml.report.svg import SERIES, Chart
from itaml.report.theme import PIXELS, line_style, style

# `theme` is imported first: it says which extra is missing without matplotlib.
# isort: split
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

WIDTH, HEIGHT = 460.0, 290.0  # pixels of one chart
LEGEND = 150.0  # pixels of a legend at the right
ROW = 18.0  # pixels of a line of text
Value = float | None


@dataclass(frozen=True)
class Series:
    """A line; `style` chooses colour, dashes and marker, and -1 is the style of published figures."""

    name: str
    x: Sequence[float]
    y: Sequence[Value]
    low: Sequence[Value] = ()
    high: Sequence[Value] = ()
    style: int = 0

    @property
    def last(self) -> Value:
        """The last known value."""
        return next((value for value in reversed(self.y) if value is not None), None)


@dataclass(frozen=True)
class Panel:
    """What one pair of axes shows."""

    series: Sequence[Series]
    title: str
    x_label: str
    y_label: str
    y_range: tuple[float, float] | None = None
    log_x: bool = False


def percent_range(series: Iterable[Series]) -> tuple[float, float]:
    """Return a range of per cent that holds all series: to 100, from a round number below the smallest value."""
    values = [value for line in series for part in (line.y, line.low) for value in part if value is not None]
    least = min(values, default=0.0)
    return (max(0.0, math.floor((least - 2) / 10) * 10) if least < 96 else 90.0, 100.0)


def line_chart(panel: Panel, *, legend: bool = True) -> Chart:
    """Draw one panel; without a legend where the page has one for several charts."""
    few = len(panel.series) <= 3
    right = LEGEND if legend and not few else 0.0
    height = max(HEIGHT, ROW * len(panel.series) + 60) if right else HEIGHT + (ROW if legend else 0)
    with style():
        figure = Figure(figsize=((WIDTH + right) / PIXELS, height / PIXELS))
        left, top = 58.0, 34.0 + (ROW if legend and few else 0)
        axes = figure.add_axes(
            (left / (WIDTH + right), 52 / height, (WIDTH - left - 14) / (WIDTH + right), (height - top - 52) / height)
        )
        _draw(axes, panel)
        if legend and few:
            axes.legend(
                handles=_handles(panel.series), loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0
            )
            axes.set_title(panel.title, pad=8 + 0.75 * ROW)
        elif legend:
            _legend_right(figure, panel.series, (WIDTH + 4) / (WIDTH + right))
    return Chart(figure, panel.title, describe(panel.series))


def panels_chart(panels: Sequence[Panel]) -> Chart:
    """Draw panels side by side, with one legend for all."""
    series = list({line.name: line for panel in panels for line in panel.series}.values())
    width, height = WIDTH * len(panels) + LEGEND, max(HEIGHT, ROW * len(series) + 60)
    with style():
        figure = Figure(figsize=(width / PIXELS, height / PIXELS))
        for place, panel in enumerate(panels):
            left = place * WIDTH + 58
            axes = figure.add_axes((left / width, 52 / height, (WIDTH - 72) / width, (height - 86) / height))
            _draw(axes, panel)
        _legend_right(figure, series, 1 - (LEGEND - 4) / width)
    described = ". ".join(f"{panel.title}: {describe(panel.series)}" for panel in panels)
    return Chart(figure, "; ".join(panel.title for panel in panels), described)


def swatch(number: int) -> Chart:
    """Draw a short piece of a series' line, for a legend in HTML."""
    with style():
        figure = Figure(figsize=(36 / PIXELS, 14 / PIXELS), facecolor="none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-1, 1)
        axes.set_ylim(-1, 1)
        axes.add_line(_line(Series("", [-0.9, 0, 0.9], [0.0, 0.0, 0.0], style=number), markers=[1]))
    return Chart(figure, "")


def describe(series: Sequence[Series]) -> str:
    """Return the last value of every series as text."""
    return ", ".join(f"{line.name} {line.last:.1f}" for line in series if line.last is not None)


def shortened(text: str, limit: int) -> str:
    """Cut text that is longer than `limit` characters, with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number(value: float, _: object = None) -> str:
    """Return a number as an axis shows it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _draw(axes: Axes, panel: Panel) -> None:
    for line in panel.series:
        band = [
            (x, low, high)
            for x, low, high in zip(line.x, line.low, line.high, strict=False)
            if low is not None and high is not None
        ]
        if len(band) > 1:
            x, low, high = zip(*band, strict=True)
            filled = axes.fill_between(x, low, high, color=line_style(line.style).color, alpha=0.16, linewidth=0)
            filled.set_gid(f"{SERIES}{line.style}:{line.name}:band")
    for line in panel.series:
        axes.add_line(_line(line))
    axes.autoscale_view()
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_visible(False)
    _scale_x(axes, panel)
    axes.yaxis.set_major_formatter(FuncFormatter(number))
    bottom, top = panel.y_range or (0.0, axes.get_ylim()[1])
    axes.set_ylim(bottom, top + 0.01 * (top - bottom))  # room for a marker at 100


def _scale_x(axes: Axes, panel: Panel) -> None:
    """Put a tick at every value, unless their labels would run into each other."""
    xs = sorted({x for line in panel.series for x in line.x})
    room = 0.06 * (xs[-1] - xs[0]) if xs else 0.0
    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if xs and (panel.log_x or all(after - before >= room for before, after in pairwise(xs))):
        axes.xaxis.set_major_locator(FixedLocator(xs))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=all(x == int(x) for x in xs)))
    axes.xaxis.set_major_formatter(FuncFormatter(number))


def _line(line: Series, markers: list[int] | None = None) -> Line2D:
    known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    look = line_style(line.style)
    artist = Line2D(
        [x for x, _ in known],
        [y for _, y in known],
        color=look.color,
        linestyle=(0, look.dashes) if look.dashes else "-",
        marker=look.marker,
        markeredgewidth=0,
        markevery=markers,
        label=line.name,
    )
    artist.set_gid(f"{SERIES}{line.style}:{line.name}")
    return artist


def _handles(series: Sequence[Series]) -> list[Line2D]:
    return [_line(Series(shortened(line.name, 20), [0], [0.0], style=line.style)) for line in series]


def _legend_right(figure: Figure, series: Sequence[Series], x: float) -> None:
    """Add a legend at the right, in the order of the lines' ends."""
    ordered = sorted(series, key=lambda line: -math.inf if line.last is None else line.last, reverse=True)
    top = 1 - 30 / (figure.get_size_inches()[1] * PIXELS)
    figure.legend(handles=_handles(ordered), loc="upper left", bbox_to_anchor=(x, top), borderaxespad=0)
