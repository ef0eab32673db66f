"""Charts: values are where they belong, series can be told apart, every text is there."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from itaml.report.bars import bar_chart, dot_chart
from itaml.report.charts import Panel, Series, line_chart, panels_chart, percent_range
from itaml.report.heat_map import SHADES, heat_map
from itaml.report.svg import Chart
from itaml.report.theme import DARK, HEAT_ALPHA, LIGHT, line_style
from plotted import bars, line_points, vertices


def _panel(*series: Series, log_x: bool = False) -> Panel:
    return Panel(series, "title", "x", "y", (0.0, 100.0), log_x=log_x)


def _texts(chart: Chart) -> list[str]:
    axes = chart.figure.axes[0]
    return [text.get_text() for text in axes.texts]


def test_a_percent_axis_starts_below_the_smallest_value() -> None:
    assert percent_range([Series("a", [1, 2], [97.0, 99.0])]) == (90.0, 100.0)
    assert percent_range([Series("a", [1, 2], [51.0, 99.0])]) == (40.0, 100.0)
    assert percent_range([Series("a", [1], [None])]) == (0.0, 100.0)


def test_lines_and_bands_leave_out_what_is_not_known() -> None:
    line = Series("a", [1, 2, 3], [90, None, 70], low=[88, None, 60], high=[92, None, 80])
    axes = line_chart(_panel(line)).figure.axes[0]
    assert line_points(axes.lines[0]) == [[1, 3], [90, 70]]
    assert {(1.0, 88.0), (1.0, 92.0), (3.0, 60.0), (3.0, 80.0)} <= set(vertices(axes.collections[0]))
    assert axes.get_ylim() == (0.0, 101.0)


def test_a_logarithmic_axis_has_a_tick_for_every_value() -> None:
    axes = line_chart(_panel(Series("a", [1, 10, 100], [1.0, 2.0, 3.0]), log_x=True)).figure.axes[0]
    assert axes.get_xscale() == "log"
    assert [float(tick) for tick in axes.get_xticks()] == [1, 10, 100]


def test_every_value_has_a_tick_where_labels_have_room() -> None:
    apart = line_chart(_panel(Series("a", [0, 0.5, 2], [1.0, 2.0, 3.0]))).figure.axes[0]
    assert [float(tick) for tick in apart.get_xticks()] == [0, 0.5, 2]
    close = line_chart(_panel(Series("a", [0, 1, 2, 100], [1.0, 2.0, 3.0, 4.0]))).figure.axes[0]
    assert 1 not in close.get_xticks()


def test_a_legend_lists_the_lines_in_the_order_of_their_ends() -> None:
    chart = line_chart(_panel(*(Series(f"m{n}", [1, 2], [99.0, 10.0 * n], style=n) for n in range(5))))
    (legend,) = chart.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["m4", "m3", "m2", "m1", "m0"]
    assert chart.description == "m0 0.0, m1 10.0, m2 20.0, m3 30.0, m4 40.0"


def test_panels_share_one_legend() -> None:
    one = _panel(Series("a", [1], [1.0]), Series("b", [1], [2.0], style=1))
    chart = panels_chart([one, one])
    assert len(chart.figure.axes) == 2
    assert [text.get_text() for text in chart.figure.legends[0].get_texts()] == ["b", "a"]
    assert chart.title == "title; title"


def test_twenty_four_series_differ_in_colour_dashes_or_marker() -> None:
    assert len({line_style(number) for number in range(24)}) == 24


def test_a_heat_map_leaves_out_what_is_not_known() -> None:
    chart = heat_map([[1.0, None], [0.5, 0.25]], title="t", x_label="x", y_label="y")
    patches = chart.figure.axes[0].patches
    assert [patch.get_alpha() for patch in patches] == pytest.approx(
        [0.04 + (HEAT_ALPHA - 0.04) * shade / SHADES for shade in (6, 12, 25)]
    )
    assert _texts(chart) == ["100", "50", "25"]
    assert chart.description == "y 1: 100 -; 2: 50 25"


def test_bars_grow_from_zero_to_either_side_and_have_their_values() -> None:
    chart = bar_chart(["up", "down", "none"], [10.0, -5.0, None], [1.0, None, None], title="t", x_label="x")
    axes = chart.figure.axes[0]
    assert bars(axes) == [(0, 10), (0, -5)]
    assert _texts(chart) == ["10.0", "-5.0"]
    assert axes.get_xlim() == (-5, 11)
    assert chart.description == "up 10.0, down -5.0"


def test_dots_are_where_their_values_are_and_deviations_go_through_them() -> None:
    line = Series("p = 1", [0, 1, 2], [90.0, None, 80.0], low=[88.0, None, 80.0], high=[92.0, None, 80.0])
    axes = dot_chart(["a", "b", "c"], [line], title="t", x_label="x", x_range=(80.0, 100.0)).figure.axes[0]
    assert line_points(axes.lines[0]) == [[90, 80], [0, 2]]
    assert vertices(axes.collections[0]) == [(88, 0), (92, 0)]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]


def _luminance(color: str) -> float:
    parts = [int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _blend(color: str, paper: str, alpha: float) -> str:
    parts = [(int(color[n : n + 2], 16), int(paper[n : n + 2], 16)) for n in (1, 3, 5)]
    red, green, blue = ((alpha * front + (1 - alpha) * back) / 255 for front, back in parts)
    return to_hex((red, green, blue))


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_contrasts_are_those_of_wcag_aa(colors: dict[str, str]) -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    paper = colors["paper"]
    for role in ("ink", "soft", "series0"):  # text; links have the first colour
        assert _contrast(colors[role], paper) >= 4.5, role
    marked = _blend(colors["series0"], paper, 0.12)  # the row of the method that is highlighted
    assert _contrast(colors["ink"], marked) >= 4.5
    for number in range(6):
        assert _contrast(colors[f"series{number}"], paper) >= 3, number
    assert _contrast(colors["ink"], _blend(colors["heat"], paper, HEAT_ALPHA)) >= 4.5


def test_the_palettes_have_the_same_roles_and_every_light_colour_is_unique() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)
