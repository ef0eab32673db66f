"""Bars that lie down, with names at their left and values at their ends."""

from __future__ import annotations

from collections.abc import Sequence

from itaml.report.charts import SIZE, WIDTH, Axis, Value, nice_ticks, number
from itaml.report.drawing import Area, Drawing, Line, Shape, Text, rectangle, shortened, text_width


def bar_chart(
    names: Sequence[str],
    values: Sequence[Value],
    *,
    title: str,
    x_label: str,
    spread: Sequence[Value] = (),
    full: float = 0.0,
) -> Drawing:
    """Draw a bar a name, lying down, with its value at its end and the deviation as a thin line."""
    known = [value for value in values if value is not None]
    room = min(150.0, max((text_width(name, SIZE) for name in names), default=0.0))
    left, top, step = room + 18, 32.0, 24.0
    ticks = nice_ticks(min([0.0, *known]), max([full, *known, 1e-9]), 5)
    axis = Axis(ticks[0], ticks[-1], left, WIDTH - 58)
    bottom = top + step * len(names)
    shapes: list[Shape] = [Text((4, 18), title, SIZE, bold=True)]
    for tick in ticks:
        shapes.append(Line(((axis(tick), top - 4), (axis(tick), bottom)), "grid"))
        shapes.append(Text((axis(tick), bottom + 16), number(tick), SIZE, "middle", "soft"))
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        y = top + index * step
        shapes.append(Text((left - 8, y + 14), shortened(name, SIZE, room), SIZE, "end"))
        if value is None:
            continue
        start, end = sorted((axis(0), axis(value)))
        shapes.append(Area(rectangle(start, y + 2, max(end - start, 1.0), step - 8), "series0", 0.85))
        deviation = spread[index] if index < len(spread) else None
        if deviation:
            middle = y + 2 + (step - 8) / 2
            sides = (min(max(value + sign * deviation, ticks[0]), ticks[-1]) for sign in (-1, 1))
            shapes.append(Line(tuple((axis(side), middle) for side in sides), "ink", 1.5))
            end = max(end, axis(min(value + deviation, ticks[-1])))
        shapes.append(Text((end + 5, y + 14), f"{value:.1f}", SIZE - 1, colour="soft"))
    shapes.append(Text(((left + WIDTH - 58) / 2, bottom + 36), x_label, SIZE, "middle", "soft"))
    return Drawing(WIDTH, bottom + 44, tuple(shapes), title)
