"""A chart with a row a name and a dot a series. Its axis may start anywhere, where bars would have to start at 0."""

from __future__ import annotations

from collections.abc import Sequence

from itaml.report.charts import SIZE, WIDTH, Axis, Series, marker, nice_ticks, number
from itaml.report.drawing import Area, Drawing, Line, Shape, Text, join, shortened, text_width

STEP, TOP = 34.0, 62.0  # height of a row; where the first begins, below title and key


def dot_chart(
    names: Sequence[str], series: Sequence[Series], *, title: str, x_label: str, x_range: tuple[float, float]
) -> Drawing:
    """Draw the n-th value of every series in the n-th row, with its deviation as a line through the dot."""
    room = min(150.0, max((text_width(name, SIZE) for name in names), default=0.0))
    ticks = nice_ticks(*x_range)
    left, bottom = room + 24, TOP + STEP * len(names)
    axis = Axis(ticks[0], ticks[-1], left, WIDTH - 24)
    shapes: list[Shape] = [Text((4, 18), title, SIZE, bold=True), *_key(series, left)]
    for tick in ticks:
        shapes.append(Line(((axis(tick), TOP - 4), (axis(tick), bottom)), "grid"))
        shapes.append(Text((axis(tick), bottom + 18), number(tick), SIZE, "middle", "soft"))
    for row, name in enumerate(names):
        shapes.append(Text((left - 12, TOP + (row + 0.5) * STEP + 5), shortened(name, SIZE, room), SIZE, "end"))
    shapes.append(Text(((left + WIDTH - 24) / 2, bottom + 38), x_label, SIZE, "middle", "soft"))
    dots = join(_dots(line, axis, place, len(series)) for place, line in enumerate(series))
    return Drawing(WIDTH, bottom + 46, (*shapes, *dots), title)


def _key(series: Sequence[Series], left: float) -> list[Shape]:
    """Name the series above the dots."""
    shapes: list[Shape] = []
    for line in series:
        shapes.append(Area(marker((left + 4, 39), line.style), line.colour))
        shapes.append(Text((left + 14, 44), line.name, SIZE - 1, colour=line.colour, bold=True))
        left += text_width(line.name, SIZE - 1) + 36
    return shapes


def _dots(line: Series, axis: Axis, place: int, count: int) -> list[Shape]:
    """Draw one series, the second a little below the first, so that deviations do not cover each other."""
    shapes: list[Shape] = []
    for row, value in enumerate(line.y):
        if value is None:
            continue
        y = TOP + (row + (place + 1) / (count + 1)) * STEP
        low, high = (side[row] if row < len(side) else None for side in (line.low, line.high))
        if low is not None and high is not None:
            shapes.append(Line(((axis(low), y), (axis(high), y)), line.colour, 1.5))
        shapes.append(Area(marker((axis(value), y), line.style), line.colour))
    return shapes
