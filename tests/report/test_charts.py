"""Drawings: where things are, that nothing overlaps, that what is written is escaped, files in three kinds."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from itaml.errors import MissingExtraError
from itaml.report.bars import bar_chart
from itaml.report.charts import HEIGHT, Axis, Series, heat_map, line_chart, nice_ticks, percent_range
from itaml.report.drawing import DARK, LIGHT, Area, Drawing, Line, Text, beside, rectangle, to_svg
from itaml.report.raster import write_figure


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (90, 100, [90, 92, 94, 96, 98, 100]),
        (0, 2.3, [0, 0.5, 1, 1.5, 2, 2.5]),
        (0, 0, [0, 1e-9]),
        (-3, 7, [-4, -2, 0, 2, 4, 6, 8]),
    ],
)
def test_ticks_are_round_and_span_the_values(low: float, high: float, ticks: list[float]) -> None:
    found = nice_ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    if high > low:
        assert found == ticks


def test_an_axis_puts_values_where_they_belong() -> None:
    assert Axis(0, 100, 200, 0)(25) == 150
    assert Axis(1, 100, 0, 10, log=True)(10) == pytest.approx(5)
    assert Axis(3, 3, 0, 10)(3) == 5


def test_a_percent_axis_starts_below_the_least_value() -> None:
    assert percent_range([Series("a", [1, 2], [97.0, 99.0])]) == (90.0, 100.0)
    assert percent_range([Series("a", [1, 2], [51.0, 99.0])]) == (40.0, 100.0)
    assert percent_range([Series("a", [1], [None])]) == (0.0, 100.0)


def test_lines_and_bands_have_their_points() -> None:
    line = Series("a", [1, 2, 3], [90, None, 70], low=[88, None, 60], high=[92, None, 80])
    drawing = line_chart([line], title="t", x_label="x", y_label="y", y_range=(0, 100))
    lines = [s for s in drawing.shapes if isinstance(s, Line) and s.colour == "series0"]
    bands = [s for s in drawing.shapes if isinstance(s, Area) and s.opacity < 1]
    markers = [s for s in drawing.shapes if isinstance(s, Area) and s.opacity == 1]
    assert (len(lines), len(lines[0].points)) == (1, 2)
    assert len(bands[0].points) == 4
    assert len(markers) == 2


def test_names_at_the_lines_never_overlap_and_stay_inside() -> None:
    series = [Series(f"method {n}", [1, 2], [90, 99.0], style=n) for n in range(20)]
    drawing = line_chart(series, title="t", x_label="x", y_label="y", y_range=(0, 100))
    places = sorted(s.at[1] for s in drawing.shapes if isinstance(s, Text) and s.text.startswith("method"))
    assert len(places) == 20
    assert min(after - before for before, after in pairwise(places)) >= 14
    assert places[0] > 0
    assert places[-1] < drawing.height
    assert drawing.height > HEIGHT


def test_twenty_series_differ_in_colour_dash_or_marker() -> None:
    looks = {(Series("", [], [], style=n).colour, Series("", [], [], style=n).dash) for n in range(20)}
    assert len(looks) == 20


def test_a_heat_map_leaves_out_what_is_not_known() -> None:
    drawing = heat_map([[1.0, None], [0.5, 0.25]], title="t", rows="12", columns="12", x_label="x", y_label="y")
    shades = [s.opacity for s in drawing.shapes if isinstance(s, Area)]
    assert shades == pytest.approx([1.0, 0.52, 0.28])
    assert {"100", "50", "25"} <= {s.text for s in drawing.shapes if isinstance(s, Text)}


def test_bars_grow_from_zero_to_either_side() -> None:
    drawing = bar_chart(["up", "down", "none"], [10.0, -5.0, None], title="t", x_label="x")
    bars = [s for s in drawing.shapes if isinstance(s, Area)]
    assert len(bars) == 2
    assert bars[0].points[0][0] == pytest.approx(bars[1].points[1][0])  # both touch zero


def test_text_is_escaped_and_the_svg_is_well_formed() -> None:
    drawing = bar_chart(["<script>alert(1)</script>", "a & b"], [1.0, 2.0], title='"<t>"', x_label="x")
    for page in (True, False):
        text = to_svg(drawing, page=page)
        ET.fromstring(text)
        assert "<script" not in text


def test_a_page_takes_its_colours_from_variables_and_a_file_has_its_own() -> None:
    drawing = Drawing(10, 10, (Area(rectangle(0, 0, 5, 5), "series0"),))
    assert "var(--series0)" in to_svg(drawing, page=True)
    assert "http" not in to_svg(drawing, page=True)
    assert LIGHT["series0"] in to_svg(drawing, page=False)
    assert LIGHT.keys() == DARK.keys()


def test_drawings_stand_side_by_side() -> None:
    one = Drawing(10, 20, (Text((1, 2), "a"), Line(((0, 0), (1, 1)))), "one")
    both = beside([one, one], gap=5)
    assert (both.width, both.height) == (25, 20)
    moved = both.shapes[2]
    assert isinstance(moved, Text)
    assert moved.at == (16, 2)


def test_a_figure_is_written_as_svg_png_and_pdf(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra report)")
    series = [Series("cost in $ and $", [1, 2], [3.0, 4.0])]
    drawing = line_chart(series, title="t", x_label="x", y_label="y")
    svg, png, pdf = write_figure(drawing, tmp_path / "new" / "fig.5")
    assert svg.name == "fig.5.svg"
    assert ET.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    again = write_figure(drawing, tmp_path / "again")
    assert again[2].read_bytes() == pdf.read_bytes()


def test_figures_without_matplotlib_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=re.escape("itaml[report]")):
        write_figure(Drawing(1, 1), tmp_path / "figure")
    assert not list(tmp_path.iterdir())
