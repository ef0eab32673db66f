"""SVG of figures: same bytes for the same figure, escaped, coloured by variables, identifiers unique."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest

from itaml.errors import MissingExtraError
from itaml.report.bars import bar_chart
from itaml.report.charts import Panel, Series, line_chart
from itaml.report.heat_map import heat_map
from itaml.report.svg import Chart, to_svg, write_figure
from itaml.report.theme import LIGHT

NAMESPACE = "{http://www.w3.org/2000/svg}"


def _lines() -> Chart:
    series = [
        Series("first", [1, 2], [99.0, 88.0], [98.0, 87.0], [100.0, 89.0]),
        Series("second", [1, 2], [98.0, 77.0], style=1),
    ]
    return line_chart(Panel(series, "Accuracy", "tasks", "%", (0.0, 100.0)))


def _heat() -> Chart:
    return heat_map([[1.0, None], [0.5, 0.25]], title="Matrix", x_label="x", y_label="y")


@pytest.mark.parametrize("make", [_lines, _heat])
def test_the_same_figure_gives_the_same_bytes(make: Callable[[], Chart], tmp_path: Path) -> None:
    assert to_svg(make(), prefix="a-") == to_svg(make(), prefix="a-")
    first, second = write_figure(make(), tmp_path / "first"), write_figure(make(), tmp_path / "second")
    assert [path.suffix for path in first] == [".svg", ".png", ".pdf"]
    assert [one.read_bytes() for one in first] == [other.read_bytes() for other in second]
    assert first[1].read_bytes().startswith(b"\x89PNG")
    assert first[2].read_bytes().startswith(b"%PDF")


def test_the_bytes_do_not_depend_on_the_users_configuration() -> None:
    plain = to_svg(_lines())
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9, "svg.hashsalt": "other"}):
        before = dict(mpl.rcParams)
        assert to_svg(_lines()) == plain
        assert dict(mpl.rcParams) == before


def test_an_svg_has_a_role_a_title_and_its_values_in_words() -> None:
    root = ET.fromstring(to_svg(_lines()))
    assert root.get("role") == "img"
    assert [(child.tag, child.text) for child in root[:2]] == [
        (f"{NAMESPACE}title", "Accuracy"),
        (f"{NAMESPACE}desc", "first 88.0, second 77.0"),
    ]
    texts = {element.text for element in root.iter(f"{NAMESPACE}text")}
    assert {"Accuracy", "tasks", "%", "first", "second", "0", "100"} <= texts  # text, not outlines
    assert not list(root.iter(f"{NAMESPACE}metadata"))


def test_a_line_is_drawn_where_its_values_are() -> None:
    root = ET.fromstring(to_svg(_lines()))
    ticks = {
        element.text: float(element.attrib["y"])
        for element in root.iter(f"{NAMESPACE}text")
        if element.text in {"0", "100"} and "end" in element.attrib["style"]
    }
    pixels = (ticks["0"] - ticks["100"]) / 100  # of one per cent
    (line,) = [group.findall(f"{NAMESPACE}path") for group in root.iter() if group.get("data-series") == "1"][:1]
    (_, y1), (_, y2) = re.findall(r"([\d.]+) ([\d.]+)", line[0].attrib["d"])
    assert float(y2) - float(y1) == pytest.approx((98 - 77) * pixels, abs=0.2)


def test_text_is_escaped_and_never_taken_for_markup_or_mathematics() -> None:
    names = ["<script>alert(1)</script>", "a & b", "$x$", f"fill:{LIGHT['series0']}"]
    chart = bar_chart(names, [1.0, 2.0, 3.0, 4.0], [None] * 4, title='"<t>"', x_label="x")
    for text in (to_svg(chart), to_svg(chart, prefix="f-")):
        found = [element.text for element in ET.fromstring(text).iter() if element.tag.endswith("text")]
        assert "<script" not in text
        assert {"a & b", "$x$", f"fill:{LIGHT['series0']}", '"<t>"'} <= set(found)


def test_a_page_takes_its_colours_from_variables_and_a_file_has_its_own() -> None:
    inline, file = to_svg(_lines(), prefix="f-"), to_svg(_lines())
    assert "var(--series0)" in inline
    assert "var(--soft)" in inline
    assert not re.search(r"#[0-9a-f]{6}", inline)  # no fixed colour is left
    assert "http" not in inline
    assert LIGHT["series0"] in file
    assert "var(" not in file


def test_identifiers_have_the_prefix_and_every_reference_is_met() -> None:
    root = ET.fromstring(to_svg(_lines(), prefix="f7-"))
    identifiers = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
    references = {element.attrib["href"][1:] for element in root.iter() if "href" in element.attrib}
    references |= {name for element in root.iter() for name in re.findall(r"#([^)]*)\)", element.get("clip-path", ""))}
    assert identifiers == references
    assert all(name.startswith("f7-") for name in identifiers)


def test_series_are_marked_so_that_a_page_can_highlight_them() -> None:
    root = ET.fromstring(to_svg(_lines(), prefix="f-"))
    marked = [element.attrib["data-series"] for element in root.iter() if "data-series" in element.attrib]
    assert sorted(marked) == ["0", "0", "1"]  # a band and two lines


def test_figures_without_matplotlib_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "itaml.report.theme")
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'itaml[report]'")):
        import itaml.report.theme  # noqa: F401


def test_importing_itaml_imports_no_matplotlib_and_drawing_no_pyplot() -> None:
    code = (
        "import sys, itaml, itaml.cli.report, itaml.report.table; assert 'matplotlib' not in sys.modules\n"
        "import itaml.report.page; assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.filterwarnings("ignore:Glyph")
def test_control_characters_in_a_name_leave_the_svg_well_formed() -> None:
    names = ["a\x1b[31m", "b\x00", "c\ufffe", "d"]
    chart = bar_chart(names, [1.0, 2.0, 3.0, 4.0], [None] * 4, title="t\x07", x_label="x")
    texts = {element.text for element in ET.fromstring(to_svg(chart)).iter()}
    assert {"a\ufffd[31m", "b\ufffd", "c\ufffd", "d", "t\ufffd"} <= texts
