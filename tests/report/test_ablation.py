"""The table, the plot and the files of an ablation: numbers worked by hand, and where they are drawn."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from handmade import finish
from itaml.experiment.reevaluate import Reevaluator
from itaml.experiment.runner import run_experiment
from itaml.experiment.sweep.ablate import Plan, plan
from itaml.experiment.sweep.ablation_numbers import measure
from itaml.inference.bound import task_accuracy
from itaml.report.ablation_files import write
from itaml.report.ablation_plot import plot, plot_of_file
from itaml.report.ablation_table import Ablation, stat
from itaml.report.figure_names import collect
from itaml.report.svg import to_svg
from itaml.report.table import cell
from plotted import line_points


def _plan(runs: Path, over: str, *values: str, benchmark: str = "digits", **rest: Any) -> Plan:
    chosen = {"method": "itaml", "preset": "best", "seeds": (0, 1)} | rest
    return plan(benchmark, over=over, values=values or None, runs=runs, **chosen)


def _measured(made: Plan, folder: Path) -> Ablation:
    return Ablation(measure(made, keep=folder / "evaluations", reevaluate=Reevaluator()))


def _beta(tmp_path: Path) -> Ablation:
    """Return beta = 0 at 80 and 84 % for two seeds, and beta = 1 at 90 and 92 %."""
    made = _plan(tmp_path, "beta", "0", "1", overrides={"epochs": 3})
    for job, last in zip(made.jobs, (0.80, 0.84, 0.90, 0.92), strict=True):
        finish(job, last=last, seconds=10 * last)
    return _measured(made, tmp_path)


def test_a_value_is_a_row_with_means_and_deviations_over_seeds(tmp_path: Path) -> None:
    table = _beta(tmp_path).table
    assert [column.name for column in table.columns] == [
        *("class p=1", "class p=20", "task p=20", "task-aware", "average p=1", "forgetting", "training s")
    ]
    first = {column.name: cell(table.rows[0].cells[column.name], column) for column in table.columns}
    assert first["class p=1"] == f"82.00 ± {4 / math.sqrt(2):.2f}"
    assert first["class p=20"] == f"92.00 ± {4 / math.sqrt(2):.2f}"
    assert first["average p=1"] == f"91.00 ± {2 / math.sqrt(2):.2f}"  # (1 + 0.80) / 2 and (1 + 0.84) / 2
    assert first["training s"] == f"16.4 ± {0.8 / math.sqrt(2):.1f}"  # two tasks each
    assert [(row.label, row.seeds, "class p=1" in row.best) for row in table.rows] == [("0", 2, False), ("1", 2, True)]
    assert table.remarks == ("itaml (best, epochs=3) on digits; the preset has beta=0.5.",)


def test_a_run_that_failed_or_is_damaged_is_left_out_and_named(tmp_path: Path) -> None:
    made = _plan(tmp_path, "beta", "0", "1", "2")
    for job in made.jobs[:4]:
        finish(job)
    (made.jobs[1].folder / "result.json").write_text("{", encoding="utf-8")
    ablation = _measured(made, tmp_path)  # beta=2 was never run
    assert [(level.label, level.seeds) for level in ablation.levels] == [("0", (0,)), ("1", (0, 1))]
    assert len(ablation.measured.problems) == 1
    assert str(made.jobs[1].folder) in ablation.measured.problems[0]


def test_the_table_of_p_has_the_prediction_of_algorithm_4_beside_what_was_measured(tmp_path: Path) -> None:
    made = _plan(tmp_path, "p", "1", "10")
    for job, last in zip(made.jobs, (0.8, 0.9), strict=True):
        finish(job, last=last)
    ablation = _measured(made, tmp_path)
    assert [column.name for column in ablation.columns] == ["task", "task, Alg. 4", "class"]
    numbers = [[stat(level, column.name) for column in ablation.columns] for level in ablation.levels]
    means = [[one.mean for one in row if one is not None] for row in numbers]
    assert means == [pytest.approx([0.85, 0.9, 0.85]), pytest.approx([1.0, 0.99, 0.95])]
    assert not any(row.best for row in ablation.table.rows)  # more samples are not a merit
    assert not (tmp_path / "evaluations").exists()


@pytest.mark.usefixtures("small_benchmarks")
def test_sizes_that_no_curve_has_are_measured_on_the_trained_learner(tmp_path: Path) -> None:
    made = _plan(tmp_path, "p", "1", "4", benchmark="small", seeds=(0,), overrides={"epochs": 2})
    (job,) = made.jobs
    final = run_experiment(job.config, job.folder).final
    job.state = "done"
    single, four = _measured(made, tmp_path).levels
    assert single.numbers[0]["class"] == final.continuum[1].classes
    predicted = task_accuracy(4, accuracy=final.continuum[1].classes, sizes=[2, 2])
    assert four.numbers[0]["task, Alg. 4"] == pytest.approx(predicted)
    assert [path.name for path in (tmp_path / "evaluations").iterdir()] == ["p-seed0.json"]


@pytest.mark.usefixtures("small_benchmarks")
def test_scores_are_compared_on_the_same_weights(tmp_path: Path) -> None:
    made = _plan(tmp_path, "task_score", benchmark="small", seeds=(0,), overrides={"epochs": 2})
    (job,) = made.jobs
    final = run_experiment(job.config, job.folder).final
    job.state = "done"
    ablation = _measured(made, tmp_path)
    levels = {level.value: level for level in ablation.levels}
    assert list(levels) == ["max-logit", "log-posterior", "calibrated"]
    assert {level.runs for level in ablation.levels} == {(job.folder,)}
    own = levels[job.config.settings["task_score"]].numbers[0]  # to the bit what the run has measured itself
    assert (own["class p=3"], own["task p=1"]) == (final.continuum[3].classes, final.continuum[1].task)
    assert len({level.numbers[0]["no update"] for level in ablation.levels}) == 1  # no score is asked there
    names = [column.name for column in ablation.columns]
    assert names == ["class p=1", "class p=3", "task p=3", "task-aware", "task p=1"]
    assert "all rows are about the same weights" in ablation.table.remarks[0]


def test_everything_is_written_and_is_not_taken_for_a_run(tmp_path: Path) -> None:
    ablation = _beta(tmp_path)
    folder = tmp_path / "digits" / "ablate-beta"
    path = write(ablation, folder)
    assert sorted(file.name for file in folder.iterdir()) == ["ablation.json", "plot.svg", "table.csv", "table.md"]
    assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert path.read_text(encoding="utf-8") == to_svg(plot_of_file(folder / "ablation.json")) + "\n"
    value = json.loads((folder / "ablation.json").read_text(encoding="utf-8"))
    assert (value["format"], value["parameter"], value["trained"]) == (1, "beta", "for every value")
    assert [row["value"] for row in value["values"]] == [0, 1]
    assert [numbers["class p=1"] for numbers in value["values"][1]["numbers"]] == [0.90, 0.92]
    assert value["values"][1]["mean"]["class p=1"] == pytest.approx(0.91)
    assert value["values"][1]["runs"][0] == "itaml-best-beta=1,epochs=3-seed0"
    assert value["config"]["settings"]["epochs"] == 3
    assert value["environments"] == [{"itaml": "0.1.0", "torch": "2.13.0"}]
    rows = list(csv.DictReader((folder / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["beta"] for row in rows] == ["0", "1"]
    assert [float(row["class p=1"]) for row in rows] == pytest.approx([0.82, 0.91])
    assert "| 1 | 2 | **91.00 ± 1.41** |" in (folder / "table.md").read_text(encoding="utf-8")
    found = collect([tmp_path / "digits"])
    assert (len(found.results), found.problems) == (4, ())


def test_numbers_are_drawn_in_order_as_lines_with_bands(tmp_path: Path) -> None:
    made = _plan(tmp_path, "beta", "2", "0")
    for job, last in zip(made.jobs, (0.80, 0.84, 0.90, 0.92), strict=True):
        finish(job, last=last)
    axes = plot(_measured(made, tmp_path)).figure.axes[0]
    lines = {line.get_label(): line_points(line) for line in axes.lines}
    assert lines == {
        "p = 1": [[0, 2], pytest.approx([91, 82])],
        "p = 20": [[0, 2], pytest.approx([100, 92])],
    }
    assert len(axes.collections) == 2  # bands
    assert axes.get_xlabel() == "beta: decay of the outer rate eta"


def test_p_is_drawn_on_a_logarithmic_axis_beside_the_prediction(tmp_path: Path) -> None:
    made = _plan(tmp_path, "p", "1", "10")
    for job in made.jobs:
        finish(job)
    axes = plot(_measured(made, tmp_path)).figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["measured", "Algorithm 4"]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "p: samples of one unknown task, log scale")


def test_names_are_drawn_as_dots_a_row_each(tmp_path: Path) -> None:
    made = _plan(tmp_path, "selection")
    for job in made.jobs:
        finish(job, last=0.8 + 0.1 * job.config.seed)
    axes = plot(_measured(made, tmp_path)).figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["random", "herding", "first"]
    values = [line_points(line)[0] for line in axes.lines]
    assert values == [pytest.approx([85.0] * 3), pytest.approx([95.0] * 3)]
