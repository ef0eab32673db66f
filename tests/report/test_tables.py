"""The table of a comparison: means and standard deviations worked by hand, the best, published figures, formats."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from handmade import handmade
from itaml.experiment.result import Result
from itaml.experiment.run_config import resolve
from itaml.report import published
from itaml.report.formats import written
from itaml.report.sentences import command, setup
from itaml.report.summary import Group, Stat, group, protocol_notes
from itaml.report.table import Table, cell, make_table


def _result(**values: Any) -> Result:
    return Result.model_validate(handmade(**values))


def _table(**methods: tuple[float, ...]) -> Table:
    results = [_result(method=m, seed=s, last=v) for m, values in methods.items() for s, v in enumerate(values)]
    return make_table(group(results))


def test_mean_and_deviation_are_those_of_the_sample() -> None:
    stat = Stat.of([0.80, 0.82, 0.84])
    assert stat is not None
    assert stat.mean == pytest.approx(0.82)
    assert stat.std == pytest.approx(0.02)
    assert Stat.of([0.5]) == Stat(0.5, None, 1)
    assert Stat.of([None, None]) is None


def test_seeds_of_a_method_are_one_row() -> None:
    table = _table(itaml=(0.80, 0.84), replay=(0.70,))
    row = table.rows[0]
    assert (row.label, row.seeds) == ("itaml", 2)
    column = table.columns[0]
    assert column.name == "class p=1"
    assert cell(row.cells["class p=1"], column) == f"82.00 ± {4 / math.sqrt(2):.2f}"
    assert cell(table.rows[1].cells["class p=1"], column) == "70.00"
    assert cell(row.cells["s/task"], table.columns[-1]) == "2.5 ± 0.0"


def test_the_best_is_bold_and_an_upper_bound_never_is() -> None:
    table = _table(itaml=(0.80,), replay=(0.70,), joint=(0.99,))
    best = {row.label: "class p=1" in row.best for row in table.rows}
    assert best == {"itaml": True, "replay": False, "joint": False}
    text = written(table, "markdown")
    assert "| itaml | 1 | **80.00** | **90.00** |" in text
    assert "| joint | 1 | 99.00 | 100.00 |" in text
    assert "joint keeps all data" in text


def test_less_forgetting_is_better_and_equal_means_share_the_first_place() -> None:
    results = [_result(method="itaml"), _result(method="replay"), _result(method="ewc")]
    results[1] = results[1].model_copy(update={"final": results[1].final.model_copy(update={"forgetting": 0.1})})
    rows = {row.label: row.best for row in make_table(group(results)).rows}
    assert "forgetting" in rows["replay"]
    assert "forgetting" not in rows["itaml"]
    assert all("class p=1" in best for best in rows.values())


def test_one_method_alone_is_not_the_best_of_anything() -> None:
    assert _table(itaml=(0.8,)).rows[0].best == frozenset()


def test_published_figures_stand_beside_ours() -> None:
    results = [_result(method=m, benchmark="mnist-5") for m in ("itaml", "ewc", "replay")]
    table = make_table(group(results))
    assert table.with_published == ("class p=1", "class p=20")
    grid = [line.split(" | ") for line in written(table, "markdown").splitlines()]
    assert grid[0][2:6] == ["class p=1", "class p=1 published", "class p=20", "class p=20 published"]
    assert grid[2][3:6] == ["-", "**100.00**", "97.95"]  # itaml
    assert grid[3][3] == "19.80"  # EWC
    assert any("Table 1" in note for note in table.notes)


def test_facts_of_the_paper_are_in_the_file() -> None:
    imagenet = published.figure("imagenet100-10", "itaml", p=50)
    assert imagenet is not None
    assert imagenet.curve[0] == 0.994
    assert (imagenet.value, len(imagenet.curve)) == (0.898, 10)
    assert [(bound.benchmark, bound.n) for bound in published.bounds("cifar100-10")] == [("cifar100-10", 17)]
    assert published.figure("cifar100-10", "itaml", p=20).value == 0.7779  # type: ignore[union-attr]
    for figure in published.figures("imagenet1k-10") + published.figures("celeb10k-10"):
        assert 0 < figure.value <= 1
        assert figure.source
        assert not figure.curve or figure.curve[-1] == figure.value


def test_csv_and_json_hold_the_numbers_unrounded() -> None:
    table = _table(itaml=(0.8, 0.85), replay=(0.7,))
    rows = list(csv.DictReader(io.StringIO(written(table, "csv"))))
    assert float(rows[0]["class p=1"]) == pytest.approx(0.825)
    assert float(rows[0]["class p=1 standard deviation"]) == pytest.approx(0.05 / math.sqrt(2))
    assert rows[1]["class p=1 standard deviation"] == ""
    value = json.loads(written(table, "json"))
    assert value["rows"][0]["numbers"]["class p=1"]["count"] == 2
    assert "class p=1" in value["rows"][0]["best"]


def test_latex_escapes_names_and_sets_the_best_in_bold() -> None:
    groups = [Group("a_b & c", (_result(last=0.8),)), Group("d", (_result(method="replay", last=0.7),))]
    text = written(make_table(groups), "latex")
    assert r"a\_b \& c & 1 & \textbf{80.00}" in text
    assert text.startswith(r"\begin{tabular}{lr")


def test_other_settings_are_another_row_that_is_named_by_the_difference() -> None:
    slow = handmade()
    slow["config"]["settings"] = slow["config"]["settings"] | {"lr": 0.01}
    groups = group([_result(), _result(seed=1), Result.model_validate(slow)])
    assert [(one.label, len(one.runs)) for one in groups] == [("itaml (lr=0.1)", 2), ("itaml (lr=0.01)", 1)]


def test_runs_with_other_tasks_are_pointed_out() -> None:
    other = _result(method="replay", names=(("a",), ("b", "c", "d")))
    notes = protocol_notes(group([_result(), other]))
    assert notes == ["The runs below have tasks of different sizes: compare them with care."]
    assert protocol_notes(group([_result(), _result(method="replay")])) == []


def test_the_command_that_repeats_a_run_names_what_its_preset_does_not_say(tmp_path: Path) -> None:
    config = resolve(
        "digits", method="itaml", seed=3, overrides={"lr": 0.0123, "seeds.order": 5}, split=(4, 6), p=(1, 7)
    )
    result = _result(seed=3).model_copy(update={"config": config.model_dump(mode="json")})
    words = command(result)
    assert words == "itaml run digits --method itaml --seed 3 --set lr=0.0123 --order-seed 5 --split 4,6 -p 7"


def test_a_name_in_csv_is_never_a_formula() -> None:
    for name in ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", " =1"):
        rows = list(csv.reader(io.StringIO(written(_table(**{name: (0.8,)}), "csv"))))
        assert rows[1][0] == f"'{name}"
        assert rows[1][2] == "0.8"


def test_a_memory_in_bytes_is_named_and_never_compared_with_images() -> None:
    images = _result(method="itaml", seed=0, last=0.80, benchmark="mnist-5")
    other = _result(method="replay", seed=0, last=0.70, benchmark="mnist-5")
    in_bytes = images.model_copy(update={"config": {**images.config, "settings": {"memory_bytes": 6_144_000}}})
    groups = group([images, other, in_bytes.model_copy(update={"preset": "best-bytes"})])
    assert [one.label for one in groups] == ["itaml (best)", "replay", "itaml (best-bytes, memory in bytes)"]
    rows = make_table(groups).rows
    assert ["class p=1" in row.best for row in rows] == [True, False, False]  # the third is alone in its protocol
    assert rows[0].published
    assert not rows[2].published
    assert any("memories in bytes and memories in images" in note for note in protocol_notes(groups))
    assert protocol_notes(groups[:2]) == []
    assert group([in_bytes])[0].label == "itaml (memory in bytes)"
    assert in_bytes.name == "mnist-5, itaml (best, memory in bytes), seed 0"
    assert setup(in_bytes) == "6,144,000 bytes of exemplars (WebP)"
