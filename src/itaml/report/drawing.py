"""Drawings: lists of shapes in named colours, written as SVG (for a page or a file) without any plotting library.

Colours are roles (`ink`, `grid`, `series0` ...), not values: in a page they are CSS variables, so that one drawing
serves light and dark; in a file they are the light values below. The series colours are near those of Okabe and Ito,
which people with any kind of colour vision can tell apart; series beyond them differ by dashes and markers too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape

LIGHT = {
    "ink": "#1b1f24",
    "soft": "#59636e",
    "grid": "#d8dee4",
    "paper": "#ffffff",
    "heat": "#0072b2",
    "onheat": "#ffffff",
    "series0": "#0072b2",
    "series1": "#d55e00",
    "series2": "#009e73",
    "series3": "#b8568f",
    "series4": "#4a5058",
    "series5": "#b87f00",
}
DARK = {
    "ink": "#e6edf3",
    "soft": "#9da7b1",
    "grid": "#343b43",
    "paper": "#14181d",
    "heat": "#2b8ccb",
    "onheat": "#ffffff",
    "series0": "#58a6e0",
    "series1": "#f0884d",
    "series2": "#2fc79a",
    "series3": "#e29ac4",
    "series4": "#cfd6dd",
    "series5": "#f0b93a",
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
ENLARGED = 1.2  # how much larger than drawn a chart may get on a wide page
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A polyline."""

    points: tuple[Point, ...]
    colour: str = "ink"
    width: float = 1.0
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Text:
    """A line of text; `anchor` is start, middle or end. `turned` reads upwards."""

    at: Point
    text: str
    size: float = 13.0
    anchor: str = "start"
    colour: str = "ink"
    bold: bool = False
    turned: bool = False


Shape = Line | Area | Text


@dataclass(frozen=True)
class Drawing:
    """Shapes on a canvas, y downwards, and a sentence that says what is to be seen."""

    width: float
    height: float
    shapes: tuple[Shape, ...] = field(default=())
    title: str = ""

    def moved(self, right: float, down: float) -> tuple[Shape, ...]:
        """Return the shapes somewhere else."""
        return tuple(_moved(shape, right, down) for shape in self.shapes)


def beside(drawings: Sequence[Drawing], *, gap: float = 12) -> Drawing:
    """Put drawings in a row."""
    shapes: list[Shape] = []
    x = 0.0
    for drawing in drawings:
        shapes += drawing.moved(x, 0)
        x += drawing.width + gap
    title = "; ".join(drawing.title for drawing in drawings)
    return Drawing(x - gap, max(drawing.height for drawing in drawings), tuple(shapes), title)


def to_svg(drawing: Drawing, *, page: bool) -> str:
    """Write a drawing as SVG: for a page (colours by CSS variable), or as a file that stands alone."""
    size = f'viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}"'
    if page:
        head = f'<svg {size} role="img" class="chart" style="max-width:{_n(ENLARGED * drawing.width)}px">'
    else:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} width="{_n(drawing.width)}" height="{_n(drawing.height)}" '
            f'font-family="{FONT}"><rect width="100%" height="100%" fill="{LIGHT["paper"]}"/>'
        )
    body = "".join(_svg(shape, page=page) for shape in drawing.shapes)
    return f"{head}<title>{escape(drawing.title)}</title>{body}</svg>"


def css_variables(colours: dict[str, str]) -> str:
    """Return the declarations of a palette."""
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def _svg(shape: Shape, *, page: bool) -> str:
    colour = f"var(--{shape.colour})" if page else LIGHT[shape.colour]
    if isinstance(shape, Text):
        return _text(shape, colour)
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
    if isinstance(shape, Line):
        dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{_n(shape.width)}"'
            f' stroke-linejoin="round"{dash}/>'
        )
    opacity = "" if shape.opacity == 1 else f' fill-opacity="{_n(shape.opacity)}"'
    (x, y), (right, _), (_, bottom) = shape.points[:3]
    if shape.points == rectangle(x, y, right - x, bottom - y):  # shorter, and heat maps have many
        return f'<path d="M{_n(x)} {_n(y)}H{_n(right)}V{_n(bottom)}H{_n(x)}z" fill="{colour}"{opacity}/>'
    return f'<polygon points="{points}" fill="{colour}"{opacity}/>'


def _text(shape: Text, colour: str) -> str:
    x, y = shape.at
    turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if shape.turned else ""
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    weight = ' font-weight="600"' if shape.bold else ""
    place = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(shape.size)}"'
    return f'<text {place} fill="{colour}"{anchor}{weight}{turn}>{escape(shape.text)}</text>'


def _moved(shape: Shape, right: float, down: float) -> Shape:
    if isinstance(shape, Text):
        return replace(shape, at=(shape.at[0] + right, shape.at[1] + down))
    return replace(shape, points=tuple((x + right, y + down) for x, y in shape.points))


def rectangle(x: float, y: float, width: float, height: float) -> tuple[Point, ...]:
    """Return the corners of a rectangle."""
    return ((x, y), (x + width, y), (x + width, y + height), (x, y + height))


def text_width(text: str, size: float) -> float:
    """Estimate how wide a line of text is; there are no font metrics without a font."""
    return sum(0.38 if c in "iljt.,:;'|!()[] " else 0.95 if c in "mwMW@%" else 0.64 for c in text) * size


def shortened(text: str, size: float, most: float) -> str:
    """Cut text that is wider than `most`, with an ellipsis."""
    if text_width(text, size) <= most:
        return text
    while text and text_width(text + "…", size) > most:
        text = text[:-1]
    return text + "…"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 or value == 0 else f"{value:.2f}"


def join(parts: Iterable[Iterable[Shape]]) -> tuple[Shape, ...]:
    """Return all shapes of all parts, in order."""
    return tuple(shape for part in parts for shape in part)
