"""The same drawings as PNG and PDF, through matplotlib (the extra `report`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from itaml.errors import MissingExtraError
from itaml.report.drawing import LIGHT, Area, Drawing, Line, Shape, to_svg

POINTS = 72  # an inch; a unit of a drawing is a pixel of 1/96 inch
PIXELS = 96


def write_figure(drawing: Drawing, stem: Path) -> list[Path]:
    """Write a drawing as `stem.svg`, `stem.png` and `stem.pdf`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = _figure(drawing)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png", "pdf")]
    paths[0].write_text(to_svg(drawing, page=False) + "\n", encoding="utf-8")
    figure.savefig(paths[1], dpi=2 * PIXELS)
    figure.savefig(paths[2], metadata={"CreationDate": None})  # the same drawing, the same bytes
    return paths


def check_extra() -> None:
    """Refuse early when PNG and PDF cannot be written.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise MissingExtraError("figures as PNG and PDF need matplotlib: pip install 'itaml[report]'") from error


def _figure(drawing: Drawing) -> Any:
    check_extra()
    figure = import_module("matplotlib.figure").Figure(figsize=(drawing.width / PIXELS, drawing.height / PIXELS))
    figure.set_facecolor(LIGHT["paper"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for shape in drawing.shapes:
        _add(axes, shape)
    return figure


def _add(axes: Any, shape: Shape) -> None:
    colour = LIGHT[shape.colour]
    scale = POINTS / PIXELS
    if isinstance(shape, Line):
        x, y = zip(*shape.points, strict=True)
        style: Any = (0, tuple(shape.dash)) if shape.dash else "-"
        axes.plot(x, y, color=colour, linewidth=shape.width * scale, linestyle=style, solid_joinstyle="round")
    elif isinstance(shape, Area):
        patch = import_module("matplotlib.patches").Polygon(
            shape.points, closed=True, facecolor=colour, alpha=shape.opacity, edgecolor="none"
        )
        axes.add_patch(patch)
    else:
        axes.text(
            *shape.at,
            shape.text.replace("$", r"\$"),
            color=colour,
            fontsize=shape.size * scale,
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
            va="baseline",
            rotation=90 if shape.turned else 0,
            rotation_mode="anchor",
            weight="bold" if shape.bold else "normal",
        )
