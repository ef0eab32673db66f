"""The numbers that a matplotlib figure shows, as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np


def line_points(line: Any) -> list[list[float]]:
    """Return the x and the y values of a line."""
    x, y = line.get_data()
    return [np.asarray(x, float).tolist(), np.asarray(y, float).tolist()]


def vertices(collection: Any) -> list[tuple[float, float]]:
    """Return the corners of the first path of a collection."""
    return [(float(x), float(y)) for x, y in collection.get_paths()[0].vertices]


def bars(axes: Any) -> list[tuple[float, float]]:
    """Return the start and the length of every horizontal bar."""
    return [(float(bar.get_x()), float(bar.get_width())) for bar in axes.patches]
