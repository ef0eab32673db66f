"""Horizontal bars, and dots for values that need not start at zero."""

from __future__ import annotations

from collections.abc import Sequence

from itaml.report.charts import WIDTH, Series, Value, describe, number, shortened
from itaml.report.svg import Chart
from itaml.report.theme import LIGHT, PIXELS, line_style, style

# `theme` is imported first: it says which extra is missing without matplotlib.
# isort: split
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

NAME = 22  # characters of a name at the left


def bar_chart(
    names: Sequence[str], values: Sequence[Value], std: Sequence[Value], *, title: str, x_label: str, full: float = 0.0
) -> Chart:
    """Draw one horizontal bar per name, with its value at its end and the standard deviation as a thin line."""
    rows = list(zip(names, values, std, strict=True))
    with style():
        figure, axes = _rows(names, title=title, x_label=x_label, step=24)
        ends = [value + (spread or 0) for _, value, spread in rows if value is not None]
        low, high = min([0.0, *ends]), max([full, *ends, 1e-9])
        axes.set_xlim(low, high)
        for place, (_, value, spread) in enumerate(rows):
            if value is None:
                continue
            axes.barh(place, value, height=0.66, color=LIGHT["series0"], alpha=0.85, linewidth=0)
            end = max(value, 0.0)
            if spread:
                axes.hlines(place, value - spread, min(value + spread, high), color=LIGHT["ink"], linewidth=1)
                end = max(end, min(value + spread, high))
            axes.annotate(
                f"{value:.1f}",
                (end, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=LIGHT["soft"],
                annotation_clip=False,
            )
    described = ", ".join(f"{name} {value:.1f}" for name, value, _ in rows if value is not None)
    return Chart(figure, title, described)


def dot_chart(
    names: Sequence[str], series: Sequence[Series], *, title: str, x_label: str, x_range: tuple[float, float]
) -> Chart:
    """Draw the n-th value of every series in the n-th row, with its standard deviation as a line through the dot."""
    with style():
        figure, axes = _rows(names, title=title, x_label=x_label, step=34, above=20)
        axes.set_xlim(*x_range)
        for place, line in enumerate(series):
            look = line_style(line.style)
            shift = (place + 1) / (len(series) + 1) - 0.5  # lines of standard deviation do not cover each other
            known = [(value, row + shift) for row, value in enumerate(line.y) if value is not None]
            for row, (low, high) in enumerate(zip(line.low, line.high, strict=True)):
                if low is not None and high is not None:
                    axes.hlines(row + shift, low, high, color=look.color, linewidth=1)
            axes.plot(*zip(*known, strict=True), look.marker, color=look.color, markeredgewidth=0, label=line.name)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series), borderaxespad=0, handletextpad=0.2)
    return Chart(figure, title, describe(series))


def _rows(names: Sequence[str], *, title: str, x_label: str, step: float, above: float = 0) -> tuple[Figure, Axes]:
    """Return empty axes with a row per name."""
    labels = [shortened(name, NAME) for name in names]
    left = 20 + 7.4 * max(map(len, labels), default=0)
    top, height = 36 + above, step * len(names) + 90 + above
    figure = Figure(figsize=(WIDTH / PIXELS, height / PIXELS))
    axes = figure.add_axes((left / WIDTH, 54 / height, (WIDTH - left - 52) / WIDTH, (height - 54 - top) / height))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels)
    axes.tick_params(axis="y", labelcolor=LIGHT["ink"])
    axes.grid(visible=False, axis="y")
    axes.spines[:].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(number))
    axes.set_xlabel(x_label)
    figure.text(4 / WIDTH, 1 - 20 / height, title, weight="bold", size=14 * 72 / PIXELS)
    return figure, axes
