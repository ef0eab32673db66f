"""The table printer: widths of a terminal, numbers that are never wrapped, one way to ask for JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from handmade import handmade, task_row, write_run
from itaml.cli.formatting import count
from itaml.cli.main import _run
from itaml.cli.run_tables import AccuracyTable, final_text
from itaml.cli.tables import Best, GrowingTable, table_text
from itaml.experiment.result import Result
from itaml.learners import LEARNERS

HEAD = ["method", "seeds", "class p=1", "class p=20", "class p=20 published", "task-aware", "average p=1", "s/task"]
NUMBERS = ["3", "12.50 ± 0.12", "97.95 ± 0.05", "97.95", "99.01 ± 0.01", "80.00 ± 1.11", "4.5"]


def test_columns_stay_straight_beside_wide_characters() -> None:
    lines = table_text(["name", "images"], [["猫", "1"], ["ねこねこ", "20"], ["dog", "300"]]).splitlines()
    assert lines == ["name      images", "猫             1", "ねこねこ      20", "dog          300"]
    assert {cell_len(line) for line in lines} == {16}


def test_a_table_that_is_too_wide_comes_in_parts_and_no_number_is_wrapped() -> None:
    rows = [[name, *NUMBERS] for name in LEARNERS.names()]
    for width in (200, 120, 80, 60, 40):
        text = table_text(HEAD, rows, width=width)
        assert max(map(cell_len, text.splitlines())) <= width
        for line in text.splitlines():
            assert line.count("±") == line.count(" ± ")  # mean and standard deviation stand on one line
        parts = text.split("\n\n")
        assert text.count("97.95 ± 0.05") == len(rows)
        for part in parts:
            body = part.splitlines()[-len(rows) :]
            assert [line.split()[0] for line in body] == list(LEARNERS.names())  # every part names its rows


def test_headers_wrap_before_a_table_is_divided() -> None:
    rows = [["itaml", *NUMBERS]]
    wide, narrow = (table_text(HEAD, rows, width=width) for width in (100, 90))
    assert wide.count("\n") == 1
    assert "\n\n" not in narrow
    heads = [line.strip() for line in narrow.splitlines()[:2]]
    assert heads == ["class", "p=20"]  # and "published" below them, in the line of the other names


def test_text_wraps_within_its_own_column() -> None:
    lines = table_text(["name", "summary"], [["a", "one two three four five six seven"]], align="lw", width=31)
    assert lines.splitlines() == ["name  summary", "a     one two three four five", "      six seven"]


def test_the_best_has_a_star_in_plain_text_and_is_bold_on_a_terminal() -> None:
    rows = [["a", Best("2")], ["b", "1"]]
    assert table_text(["x", "n"], rows).splitlines()[1] == "a  *2"
    assert "\x1b[1m2\x1b[0m" in table_text(["x", "n"], rows, bold=True)


def test_control_characters_in_names_are_escaped() -> None:
    assert table_text(["name"], [["a\x1b[2Jb"]]).splitlines()[1] == "a\\x1b[2Jb"


def test_rows_of_a_growing_table_stand_below_its_header() -> None:
    table = GrowingTable(["task", "class p=20"])
    assert [table.header(), table.line(["1", "99.50"])] == ["   task  class p=20", "      1       99.50"]


def test_a_single_size_of_continua_has_one_column_and_tasks_count_from_one() -> None:
    table = AccuracyTable([1])
    names = [name.strip() for name in table.header().split("  ") if name.strip()]
    assert names[:6] == ["task", "classes", "class p=1", "task p=1", "task-aware", "no update"]
    continuum = {"1": {"class": 0.5, "task": 1.0}}
    row = task_row(classes=["a"], continuum=continuum, task_aware=None, no_update=0.25, train_seconds=1.26)
    line = dict(zip(names, table.line(row).split(), strict=True))
    assert [line[name] for name in names[:6]] == ["1", "+1", "50.00", "100.00", "-", "25.00"]
    assert line["s/task"] == "1.3"


def test_the_final_table_names_each_protocol_once() -> None:
    result = Result.model_validate(handmade(last=0.5))
    lines = final_text(result, [1]).splitlines()
    assert lines[0].split("  ", 1)[0].strip() == "50.00 %"
    assert "class accuracy, p=1" in lines[0]
    assert lines[0].endswith("each image alone")
    assert sum("forgetting, p=1" in line for line in lines) == 1


def test_counts_have_the_right_form_of_their_noun() -> None:
    words = [count(1, "image"), count(2, "image"), count(0, "class"), count(1, "class"), count(3, "new class")]
    assert words == ["1 image", "2 images", "0 classes", "1 class", "3 new classes"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_every_list_is_a_table_or_json(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["list", "methods"],
        ["list", "benchmarks"],
        ["list", "backbones"],
        ["list", "presets"],
        ["data", "list"],
    ):
        assert _run([*words, *(["--json"] if form == "json" else [])]) == 0
        out = capsys.readouterr().out
        if form == "json":
            assert json.loads(out)
        else:
            lines = out.splitlines()
            assert lines[0].split()[0] in ("name", "method", "data")


def test_a_list_keeps_within_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("itaml.cli.tables.line_width", lambda: 80)
    for words in (["list", "methods"], ["list", "benchmarks"], ["list", "presets"]):
        assert _run(words) == 0
        assert max(map(cell_len, capsys.readouterr().out.splitlines())) <= 80


def test_report_prints_what_it_wrote_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    page = tmp_path / "page.html"
    assert _run(["report", str(run), "-o", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["page"] == str(page)
    assert [one["path"] for one in said["runs"]] == [str(run / "result.json")]
    assert _run(["report", str(run), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"1 run reported in {page}\n"
