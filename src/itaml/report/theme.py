"""The look of figures: colours, line styles and matplotlib's parameters.

Importing this module imports matplotlib, which is in the extra `report`.

Figures are drawn in the light colours. In a page every colour becomes a CSS variable (see `svg`), so that one figure
serves light and dark. The series colours are close to those of Okabe and Ito, which people with any kind of colour
vision can distinguish; series beyond the sixth differ by dashes and markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from itaml.errors import MissingExtraError

try:
    import matplotlib as mpl
except ImportError as error:
    raise MissingExtraError("figures and reports need matplotlib: pip install 'itaml[report]'") from error

LIGHT = {  # every value is unique, because `svg` finds a role by its colour
    "ink": "#1b1f24",
    "soft": "#59636e",
    "grid": "#d8dee4",
    "paper": "#ffffff",
    "heat": "#0073b3",
    "series0": "#0072b2",
    "series1": "#d55e00",
    "series2": "#00875f",
    "series3": "#b8568f",
    "series4": "#4a5058",
    "series5": "#a87400",
}
DARK = {
    "ink": "#e6edf3",
    "soft": "#9da7b1",
    "grid": "#343b43",
    "paper": "#14181d",
    "heat": "#1f6fb0",
    "series0": "#58a6e0",
    "series1": "#f0884d",
    "series2": "#2fc79a",
    "series3": "#e29ac4",
    "series4": "#cfd6dd",
    "series5": "#f0b93a",
}
COLORS = 6
HEAT_ALPHA = 0.75  # opacity of the fraction 1 in a heat map; text in `ink` keeps a contrast of 4.5 on it
_DASHES: tuple[tuple[float, ...], ...] = ((), (4, 2), (1, 1.5), (5, 1.5, 1, 1.5))
_MARKERS = ("o", "s", "^", "D")
PIXELS = 96  # per inch, as in CSS
_POINTS = 72 / PIXELS
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "itaml",
    "text.parse_math": False,  # a class may be called "$"
    "font.size": 13 * _POINTS,
    "axes.titlesize": 14 * _POINTS,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.edgecolor": LIGHT["grid"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.titlecolor": LIGHT["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.facecolor": "none",
    "figure.facecolor": LIGHT["paper"],
    "figure.dpi": PIXELS,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 1 * _POINTS,
    "legend.frameon": False,
    "legend.fontsize": 12 * _POINTS,
    "legend.handlelength": 2.4,
    "lines.linewidth": 2 * _POINTS,
    "lines.markersize": 6 * _POINTS,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["grid"],
    "ytick.color": LIGHT["grid"],
    "xtick.labelcolor": LIGHT["soft"],
    "ytick.labelcolor": LIGHT["soft"],
    "xtick.major.size": 3,
    "ytick.left": False,
}


class LineStyle(NamedTuple):
    """How a series is drawn."""

    color: str
    dashes: tuple[float, ...]
    marker: str


def line_style(number: int) -> LineStyle:
    """Return the style of the n-th series; a negative number is the style of published figures."""
    if number < 0:
        return LineStyle(LIGHT["soft"], (3, 2), "o")
    dashes = _DASHES[number // COLORS % len(_DASHES)]
    return LineStyle(LIGHT[f"series{number % COLORS}"], dashes, _MARKERS[number % len(_MARKERS)])


@contextmanager
def style() -> Iterator[None]:
    """Apply our parameters and matplotlib's defaults, whatever the user's own configuration is, and restore it."""
    if mpl.rcParams["svg.hashsalt"] == _RC["svg.hashsalt"]:  # inside another use of it
        yield
        return
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def css_variables(colors: dict[str, str]) -> str:
    """Return the declarations of a palette."""
    return ";".join(f"--{name}:{value}" for name, value in colors.items())
