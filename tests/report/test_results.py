"""Reading results back: numbers as attributes, notebooks, data frames, and files that are not results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import itaml
from handmade import handmade, write_run
from itaml.errors import DataError, MissingExtraError
from itaml.report.figure_names import collect


def test_numbers_are_attributes(tmp_path: Path) -> None:
    result = itaml.load_result(write_run(tmp_path / "run", last=0.85))
    assert (result.method, result.seed, result.p) == ("itaml", 0, 20)
    assert result.final.continuum[1].classes == 0.85
    assert result.final.continuum[20].classes == 0.95
    assert result.tasks[1].task_aware == 0.98
    assert result.accuracy_matrix == [[1.0, None], [0.7, 0.85]]
    assert itaml.load_result(tmp_path / "run" / "result.json") == result


def test_a_result_of_the_design_note_without_the_later_fields_is_read(tmp_path: Path) -> None:
    value = handmade()
    for key in ("curve", "per_class", "task_confusion"):
        del value["final"][key]
    for key in ("accuracy_matrices", "evaluated_on", "environment"):
        del value[key]
    (tmp_path / "result.json").write_text(json.dumps(value), encoding="utf-8")
    assert itaml.load_result(tmp_path).final.forgetting == 0.3


def test_notebooks_show_per_cent_and_escape_names(tmp_path: Path) -> None:
    names = (("<script>", "b"), ("c", "d"))
    html = itaml.load_result(write_run(tmp_path / "run", last=0.85, names=names))._repr_html_()
    assert "<td>85.00</td>" in html
    assert "&lt;script&gt;, b" in html
    assert "<script>" not in html


def test_a_data_frame_has_a_row_a_task(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed (the extra pandas)")
    frame = itaml.load_result(write_run(tmp_path / "run", last=0.85)).to_frame()
    assert list(frame.index) == [1, 2]
    assert list(frame["class p=1"]) == [1.0, 0.85]
    assert list(frame["train_seconds"]) == [2.0, 3.0]


def test_a_data_frame_without_pandas_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"itaml\[pandas\]"):
        itaml.load_result(write_run(tmp_path / "run")).to_frame()


def _with(**changes: Any) -> str:
    return json.dumps(handmade() | changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(handmade())[:300], "damaged or not JSON"),
        ("", "damaged or not JSON"),
        ("[1, 2]", "not a result of itaml"),
        ('{"loss": 1}', "not a result of itaml"),
        (_with(format=2), "has format 2; this version of itaml reads format 1"),
        (_with(tasks=[]), "not a whole result: tasks"),
        (_with(final={"continuum": {}}), "not a whole result: final"),
        (_with(accuracy_matrix=[[1.0]]), "do not fit its 2 tasks"),
        (_with(accuracy_matrix=[[7.0, None], [0.1, 0.2]]), "less than or equal to 1"),
        (_with(seed="one"), "not a whole result: seed"),
    ],
)
def test_a_file_that_is_not_a_result_is_named_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "result.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"result\.json") as caught:
        itaml.load_result(tmp_path)
    assert words in str(caught.value)


def test_missing_and_unfinished_runs_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        itaml.load_result(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"there is no result\.json"):
        itaml.load_result(tmp_path)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="the run is not finished"):
        itaml.load_result(tmp_path)


def test_a_folder_of_runs_stands_for_its_runs_once_each(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b", seed=1)
    found = collect([tmp_path / "runs", tmp_path / "runs" / "a", tmp_path / "runs" / "b" / "result.json"])
    assert [result.seed for result in found.results] == [0, 1]
    assert not found.problems


def test_a_result_is_written_and_read_by_the_same_class(tmp_path: Path) -> None:
    value = handmade(last=0.85)
    result = itaml.Result.model_validate(value)
    saved = result.save(tmp_path / "result.json")
    assert itaml.Result.load(tmp_path) == saved
    assert saved.path == tmp_path / "result.json"
    written = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert {key: written[key] for key in value if key not in ("tasks", "final")} == {
        key: value[key] for key in value if key not in ("tasks", "final")
    }
    assert {key: written["final"][key] for key in value["final"]} == value["final"]
    for row, before in zip(written["tasks"], value["tasks"], strict=True):
        assert {key: row[key] for key in before} == before
    assert "path" not in written


def test_a_result_cannot_be_changed(tmp_path: Path) -> None:
    result = itaml.Result.model_validate(handmade())
    with pytest.raises(ValidationError, match="frozen"):
        result.seed = 5  # type: ignore[misc]


@pytest.mark.parametrize("module", ["page", "charts", "bars", "svg", "ablation_plot"])
def test_without_matplotlib_every_module_names_the_extra(module: str) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from itaml.errors import MissingExtraError\n"
        f"try: import itaml.report.{module}\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "figures and reports need matplotlib: pip install 'itaml[report]'\n", done.stderr
