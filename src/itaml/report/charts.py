"""Lines with bands, and heat maps. Labels stand at the lines, not in a box beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from itaml.report.drawing import Area, Drawing, Line, Point, Shape, Text, join, rectangle, shortened, text_width

WIDTH, HEIGHT = 460.0, 290.0
SIZE = 14.0  # of text, in pixels at full width; a phone shows it at two thirds
COLOURS = 6
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 4), (2, 3), (9, 3, 2, 3))
Value = float | None


@dataclass(frozen=True)
class Series:
    """A line; `style` chooses colour, dash and marker, and -1 is the soft grey of what others published."""

    name: str
    x: Sequence[float]
    y: Sequence[Value]
    low: Sequence[Value] = ()
    high: Sequence[Value] = ()
    style: int = 0
    dashed: bool = False

    @property
    def colour(self) -> str:
        """The role of its colour."""
        return "soft" if self.style < 0 else f"series{self.style % COLOURS}"

    @property
    def dash(self) -> tuple[float, ...]:
        """Its dash: solid for the first colours, then one pattern a round."""
        if self.style < 0 or self.dashed:
            return (5, 4)
        return DASHES[self.style // COLOURS % len(DASHES)]


@dataclass(frozen=True)
class Axis:
    """From values to a stretch of the canvas."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return where a value is."""
        scale = math.log if self.log else float
        low, high = scale(self.low), scale(self.high)
        return self.start + (self.end - self.start) * ((scale(value) - low) / (high - low) if high > low else 0.5)


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers (1, 2 or 5 times a power of ten apart) that span from `low` to `high`."""
    span = max(high - low, 1e-9)
    power = 10 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def percent_range(series: Sequence[Series]) -> tuple[float, float]:
    """Return a range of per cent that holds all series: to 100, from a round number below the least."""
    values = [value for line in series for part in (line.y, line.low) for value in part if value is not None]
    least = min(values, default=0.0)
    return (max(0.0, math.floor((least - 2) / 10) * 10) if least < 96 else 90.0, 100.0)


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
    x_ticks: Sequence[float] | None = None,
    log_x: bool = False,
) -> Drawing:
    """Draw lines with bands and markers; a series of one point is a marker alone."""
    values = [v for line in series for part in (line.y, line.low, line.high) for v in part if v is not None] or [0.0]
    low, high = y_range or (min(0.0, *values), max(values) * 1.05 or 1.0)
    y_ticks = nice_ticks(low, high)
    xs = [x for line in series for x in line.x] or [0.0]
    labels = max((text_width(line.name, SIZE - 1) for line in series), default=0.0)
    right = min(150.0, labels + 16)
    height = max(HEIGHT, 17.0 * len(series) + 90)
    left = 24 + max(text_width(number(tick), SIZE) for tick in y_ticks) + 8
    x_axis = Axis(min(xs), max(xs), left + 8, WIDTH - right - 6, log=log_x)
    y_axis = Axis(y_ticks[0], y_ticks[-1], height - 48, 34)
    ticks = x_ticks if x_ticks is not None else sorted(set(xs))
    words = (title, x_label, y_label)
    frame = _frame(words, (x_axis, ticks), (y_axis, y_ticks), left=left, right=WIDTH - right, h=height)
    bands = join(_band(line, x_axis, y_axis) for line in series)
    lines = join(_line(line, x_axis, y_axis) for line in series)
    return Drawing(WIDTH, height, (*frame, *bands, *lines, *_labels(series, y_axis, WIDTH - right, right)), title)


def _frame(
    words: tuple[str, str, str],
    across: tuple[Axis, Sequence[float]],
    up: tuple[Axis, Sequence[float]],
    *,
    left: float,
    right: float,
    h: float,
) -> tuple[Shape, ...]:
    (title, x_label, y_label), (x_axis, x_ticks), (y_axis, y_ticks) = words, across, up
    shapes: list[Shape] = [Text((4, 18), title, SIZE, bold=True)]
    for tick in y_ticks:
        y = y_axis(tick)
        shapes.append(Line(((left, y), (right, y)), "grid"))
        shapes.append(Text((left - 8, y + 5), number(tick), SIZE, "end", "soft"))
    shown = list(x_ticks)
    while len(shown) > 2 and sum(text_width(number(t), SIZE) + 9 for t in shown) > right - left:
        shown = shown[::2]
    shown = _apart(shown, x_axis)
    shapes += [Text((x_axis(tick), h - 28), number(tick), SIZE, "middle", "soft") for tick in shown]
    shapes.append(Text(((left + right) / 2, h - 8), x_label, SIZE, "middle", "soft"))
    shapes.append(Text((14, (y_axis.start + y_axis.end) / 2), y_label, SIZE, "middle", "soft", turned=True))
    return tuple(shapes)


def _apart(ticks: Sequence[float], axis: Axis) -> list[float]:
    """Return the ticks whose labels do not run into the one before; values may be close together on an even axis."""
    shown: list[float] = []
    for tick in ticks:
        room = (text_width(number(tick), SIZE) + text_width(number(shown[-1]), SIZE)) / 2 + 4 if shown else 0.0
        if not shown or axis(tick) - axis(shown[-1]) >= room:
            shown.append(tick)
    return shown


def _band(line: Series, x_axis: Axis, y_axis: Axis) -> list[Shape]:
    sides = [
        (x_axis(x), y_axis(low), y_axis(high))
        for x, low, high in zip(line.x, line.low, line.high, strict=False)
        if low is not None and high is not None
    ]
    if len(sides) < 2:
        return []
    upper = [(x, high) for x, _, high in sides]
    lower = [(x, low) for x, low, _ in reversed(sides)]
    return [Area((*upper, *lower), line.colour, 0.16)]


def _line(line: Series, x_axis: Axis, y_axis: Axis) -> list[Shape]:
    points = [(x_axis(x), y_axis(y)) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    shapes: list[Shape] = [Line(tuple(points), line.colour, 2.0, line.dash)] if len(points) > 1 else []
    return [*shapes, *(Area(marker(point, line.style), line.colour) for point in points)]


def marker(centre: Point, style: int) -> tuple[Point, ...]:
    """Return a disc, square, triangle or diamond, so that series differ by more than colour."""
    corners, turn = ((10, 0.0), (4, 0.25), (3, 0.5), (4, 0.0))[style % 4 if style >= 0 else 0]
    radius = 3.2 if corners == 10 else 4.2
    x, y = centre
    angles = [math.tau * (corner / corners + turn / 2) for corner in range(corners)]
    return tuple((x + radius * math.sin(angle), y + radius * math.cos(angle)) for angle in angles)


def _labels(series: Sequence[Series], y_axis: Axis, x: float, room: float) -> list[Shape]:
    """Write each line's name at its end, moved apart where ends are close."""
    ends = [(y_axis(last), line) for line in series if (last := _last(line.y)) is not None]
    ends.sort(key=lambda end: end[0])
    step, places = SIZE + 2, []
    floor = y_axis.end
    for y, _ in ends:
        floor = max(y, floor)
        places.append(floor)
        floor += step
    ceiling = y_axis.start
    for index in reversed(range(len(places))):  # push back up what was pushed out at the bottom
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - step
    return [
        Text((x + 6, place + 4), shortened(line.name, SIZE - 1, room - 8), SIZE - 1, colour=line.colour, bold=True)
        for place, (_, line) in zip(places, ends, strict=True)
    ]


def heat_map(
    cells: Sequence[Sequence[Value]],
    *,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    x_label: str,
    y_label: str,
) -> Drawing:
    """Draw fractions as a grid of shades, with the per cent in each cell while there is room for it."""
    count = max(len(rows), len(columns))
    side = min(48.0, (WIDTH - 60) / count)
    left, top = 52.0, 34.0
    shapes: list[Shape] = [Text((4, 18), title, SIZE, bold=True)]
    for i, row in enumerate(cells):
        for j, value in enumerate(row):
            if value is None:
                continue
            x, y = left + j * side, top + i * side
            shapes.append(Area(rectangle(x, y, side - 1, side - 1), "heat", 0.04 + 0.96 * min(1.0, max(0.0, value))))
            if side >= 30:
                colour = "onheat" if value > 0.55 else "ink"
                shapes.append(Text((x + side / 2, y + side / 2 + 5), f"{100 * value:.0f}", SIZE - 1, "middle", colour))
    bottom = top + len(rows) * side
    every = 1 + count // 16
    shapes += [
        Text((left - 6, top + (i + 0.5) * side + 5), rows[i], SIZE, "end", "soft") for i in range(0, len(rows), every)
    ]
    shapes += [
        Text((left + (j + 0.5) * side, bottom + 16), columns[j], SIZE, "middle", "soft")
        for j in range(0, len(columns), every)
    ]
    shapes.append(Text((left + len(columns) * side / 2, bottom + 38), x_label, SIZE, "middle", "soft"))
    shapes.append(Text((16, top + len(rows) * side / 2), y_label, SIZE, "middle", "soft", turned=True))
    tall = max(bottom + 46, top + text_width(y_label, SIZE) + 10)
    return Drawing(WIDTH, tall, tuple(shapes), title)


def _last(values: Sequence[Value]) -> Value:
    return next((value for value in reversed(values) if value is not None), None)


def number(value: float) -> str:
    """Return a number as an axis shows it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
