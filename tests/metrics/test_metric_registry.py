"""The registry of metrics: every metric is declared once, and everything that shows numbers iterates over it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiment_support import short
from handmade import handmade, task_row
from itaml.cli.run_tables import AccuracyTable, final_text
from itaml.experiment.event_log import RunDone, TaskDone
from itaml.experiment.loggers import scalars
from itaml.experiment.result import Result
from itaml.experiment.runner import run_experiment
from itaml.metrics import metric_registry as registry
from itaml.metrics.metric import MEGABYTES, PERCENT, SECONDS, Metric
from itaml.metrics.metric_registry import measured, metrics
from itaml.report.summary import group
from itaml.report.table import make_table

RESULT = Result.model_validate(handmade(last=0.85))


def value(name: str) -> float | None:
    return next(metric for metric in metrics((1, 20)) if metric.name == name).value_of(RESULT)


def test_values_are_those_of_the_result() -> None:
    assert (value("class p=1"), value("class p=20"), value("task p=20")) == (0.85, 0.95, 1.0)
    assert (value("task-aware"), value("no update"), value("forgetting")) == (0.98, 0.85, 0.3)
    assert value("average p=1") == pytest.approx(0.925)
    assert value("backward transfer") == pytest.approx(0.7 - 1.0)
    assert (value("s/task"), value("MB")) == (2.5, 400.0)


def test_sizes_that_were_not_evaluated_have_no_value() -> None:
    (missing,) = [metric for metric in metrics([7]) if metric.name == "class p=7"]
    assert missing.value_of(RESULT) is None
    assert missing.after(RESULT.tasks[0]) is None


def test_names_and_keys_are_unique_and_every_metric_has_a_meaning() -> None:
    found = metrics((1, 20))
    assert len({metric.name for metric in found}) == len({metric.key for metric in found}) == len(found)
    assert all(metric.meaning and metric.title for metric in found)


@pytest.mark.parametrize(
    ("form", "number", "text"), [(PERCENT, 0.98765, "98.77"), (SECONDS, 2.345, "2.3"), (MEGABYTES, 400.4, "400")]
)
def test_numbers_are_written_in_their_units(form: Any, number: float, text: str) -> None:
    assert form.text(number) == text
    assert form.text(None) == "-"


def test_the_registry_is_read_without_torch() -> None:
    code = "import itaml.metrics.metric_registry, itaml.experiment.result, sys; print('torch' in sys.modules)"
    src = str(Path(registry.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": src}, check=True
    )
    assert done.stdout.strip() == "False"


def whole(samples: Any) -> float:
    """Stand for a measurement: the share of images that were evaluated."""
    return len(samples.hits) / 36


@pytest.mark.usefixtures("small_benchmarks")
def test_a_metric_that_is_declared_once_is_measured_logged_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = Metric(
        name="whole",
        key="whole",
        title="share evaluated",
        meaning="share of all test images that were evaluated",
        direction="higher",
        format=PERCENT,
        value_of=lambda run: run.tasks[-1].measures.get("whole"),
        after_task=lambda row: row.measures.get("whole"),
        measure=f"{__name__}:whole",
    )
    monkeypatch.setattr(registry, "ENTRIES", (*registry.ENTRIES, added))
    assert set(measured("measure")) >= {"whole"}
    result = run_experiment(short(), tmp_path)
    assert [row.measures["whole"] for row in result.tasks] == [0.5, 1.0]
    assert result.final.metrics["whole"] == 1.0
    assert ("task/whole", 0.5, 1) in scalars(TaskDone(0, result.tasks[0]))
    assert ("final/whole", 1.0, 0) in scalars(RunDone(result.final))
    assert AccuracyTable((1, 3)).header().split()[-1] == "whole"
    assert "100.00 %  share evaluated" in final_text(result, (1, 3))
    assert make_table(group([result])).columns[-1].name == "whole"
    assert "<th>whole</th>" in result._repr_html_()
    assert Result.load(tmp_path) == result


def test_columns_without_any_value_are_left_out_of_tables() -> None:
    value = handmade()
    value["final"] |= {"task_aware": None, "no_update": None}
    names = [column.name for column in make_table(group([Result.model_validate(value)])).columns]
    assert "task-aware" not in names
    assert "class p=1" in names


def test_a_row_of_an_older_version_has_its_costs() -> None:
    row = task_row()
    found = {metric.key: metric.after(row) for metric in metrics((1, 20))}
    assert (found["train_seconds"], found["peak_memory_mb"], row.epochs) == (2.0, 400.0, None)
