"""Heat maps: fractions as a grid of shades."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from itaml.report.charts import WIDTH, Value
from itaml.report.svg import Chart
from itaml.report.theme import HEAT_ALPHA, LIGHT, PIXELS, style

SHADES = 25  # steps of the scale; cells of one shade are one path, which keeps large maps small


def heat_map(cells: Sequence[Sequence[Value]], *, title: str, x_label: str, y_label: str) -> Chart:
    """Draw fractions as a grid of shades, with the per cent in each cell while there is room for it."""
    count = len(cells)
    side = min(48.0, (WIDTH - 60) / count)
    width, height = WIDTH, max(count * side, 110) + 90
    with style():
        figure = Figure(figsize=(width / PIXELS, height / PIXELS))
        size = count * side
        axes = figure.add_axes((52 / width, (height - 34 - size) / height, size / width, size / height))
        axes.set_xlim(0, count)
        axes.set_ylim(count, 0)
        axes.grid(visible=False)
        _add_shades(axes, cells, gap=1 / side)
        if side >= 30:
            for i, row in enumerate(cells):
                for j, value in enumerate(row):
                    if value is not None:
                        axes.text(j + 0.5, i + 0.5, f"{100 * value:.0f}", ha="center", va="center_baseline")
        every = 1 + count // 16
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks([n + 0.5 for n in range(0, count, every)], [str(n + 1) for n in range(0, count, every)])
            axis.set_tick_params(left=False, bottom=False)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        figure.text(4 / width, 1 - 20 / height, title, weight="bold", size=14 * 72 / PIXELS)
    rows = (f"{n + 1}: {' '.join('-' if v is None else f'{100 * v:.0f}' for v in row)}" for n, row in enumerate(cells))
    return Chart(figure, title, f"{y_label} {'; '.join(rows)}" if count <= 20 else "")


def _add_shades(axes: Axes, cells: Sequence[Sequence[Value]], *, gap: float) -> None:
    shades: dict[int, list[Path]] = {}
    for i, row in enumerate(cells):
        for j, value in enumerate(row):
            if value is not None:
                corners = [(j, i), (j + 1 - gap, i), (j + 1 - gap, i + 1 - gap), (j, i + 1 - gap), (j, i)]
                shade = round(SHADES * min(1.0, max(0.0, value)))
                shades.setdefault(shade, []).append(Path(corners, closed=True))
    for shade, paths in sorted(shades.items()):
        alpha = 0.04 + (HEAT_ALPHA - 0.04) * shade / SHADES
        patch = PathPatch(Path.make_compound_path(*paths), facecolor=LIGHT["heat"], alpha=alpha, linewidth=0)
        axes.add_patch(patch)
        patch.set_clip_on(False)
