"""`itaml ablate` at the command line: the table, the files, what is left out, wrong words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handmade import finish
from itaml.cli.main import main
from itaml.experiment.runner import run_experiment
from itaml.experiment.sweep.ablate import Plan, plan
from itaml.experiment.sweep.parameters import SWEEP_PARAMETERS


def _plan(runs: Path, over: str, *values: str, benchmark: str = "digits", **rest: Any) -> Plan:
    chosen = {"method": "itaml", "preset": "best", "seeds": (0,)} | rest
    return plan(benchmark, over=over, values=values or None, runs=runs, **chosen)


def _main(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["ablate", *map(str, words)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_table_of_finished_runs_is_printed_and_everything_is_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job in _plan(tmp_path, "beta", "0", "1", seeds=(0, 1)).jobs:
        finish(job, last=0.8 + 0.1 * job.config.settings["beta"] + 0.02 * job.config.seed)
    assert _main("digits", "--over", "beta", "--values", "0,1", "--seeds", "0,1", "--runs", tmp_path) == 0
    said = capsys.readouterr()
    head, zero, one = said.out.splitlines()[:3]
    assert head.split()[:2] == ["beta", "seeds"]
    assert zero.split()[:3] == ["0", "2", "81.00"]
    assert "*91.00 ± 1.41" in one
    assert "the preset has beta=0.5" in said.out
    folder = tmp_path / "digits" / "ablate-beta-itaml-best"
    assert said.err.splitlines()[0] == "4 runs: 4 finished already, 0 to do"
    assert said.err.splitlines()[-1] == f"the plot is in {folder / 'plot.svg'}"
    assert json.loads((folder / "ablation.json").read_text(encoding="utf-8"))["parameter"] == "beta"


def test_formats_for_programs_go_to_standard_output_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job in _plan(tmp_path, "p", "1", "10").jobs:
        finish(job, last=0.8)
    words = ("digits", "--over", "p", "--values", "1,10", "--runs", tmp_path, "--out", tmp_path / "new", "-q")
    assert _main(*words, "--json") == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)["rows"]
    assert [(row["p"], row["numbers"]["task, Alg. 4"]["mean"]) for row in rows] == [("1", 0.9), ("10", 0.99)]
    assert said.err == ""
    assert (tmp_path / "new" / "plot.svg").is_file()
    assert _main(*words, "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("p,seeds,task,task standard deviation")


@pytest.mark.usefixtures("small_benchmarks")
def test_a_trained_learner_is_evaluated_with_every_value_and_only_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job,) = _plan(tmp_path, "adapt_steps", benchmark="small", overrides={"epochs": 1}).jobs
    run_experiment(job.config, job.folder)
    words = ("small", "--over", "adapt_steps", "--values", "0,1", "--set", "epochs=1", "--runs", tmp_path)
    assert _main(*words) == 0
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if "evaluating" in line] == [
        "evaluating adapt_steps=0-seed0",
        "evaluating adapt_steps=1-seed0",
    ]
    assert "trained once per seed, with adapt_steps=0" in said.out
    assert _main(*words) == 0
    again = capsys.readouterr()
    assert again.out == said.out
    assert "evaluating" not in again.err


def test_a_run_that_cannot_go_on_is_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _plan(tmp_path, "beta", "0", "1", "2").jobs
    for job in jobs:
        finish(job)
    (jobs[0].folder / "config.json").write_text("{}", encoding="utf-8")
    (jobs[1].folder / "result.json").write_text('{"format": 7}', encoding="utf-8")
    assert _main("digits", "--over", "beta", "--values", "0,1,2", "--runs", tmp_path, "--json") == 1
    said = capsys.readouterr()
    assert [row["beta"] for row in json.loads(said.out)["rows"]] == ["2"]
    assert "failed: itaml (best), beta=0, seed 0: " in said.err
    assert f"not in the table: {jobs[1].folder / 'result.json'} has format 7" in said.err


def test_a_usual_value_that_is_impossible_is_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job in _plan(tmp_path, "distill", preset="paper").jobs:
        finish(job)
    assert _main("digits", "--over", "distill", "--preset", "paper", "--runs", tmp_path) == 0
    said = capsys.readouterr()
    assert [line.split(":")[1] for line in said.err.splitlines()[:3]] == [f" distill={v}" for v in ("0.5", "1", "2")]
    assert said.out.splitlines()[1].split()[:2] == ["0", "1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits",), "--over"),
        (
            ("digits", "--over", "bta"),
            "no parameter 'bta'; did you mean 'beta'? There are: p, inner_steps, beta, adapt_st",
        ),
        (("digits", "--over", "beta", "--values", "0,x"), "beta=x: setting beta: must be a valid number"),
        (("digits", "--over", "beta", "--values", ","), "at least one value"),
        (("digits", "--over", "optimizer", "--values", "sgd,adm"), "optimizer=adm: no optimizer 'adm'; did you mean"),
        (("digits", "--over", "augment", "--values", "crp"), "augment=crp: no augmentation 'crp'; did you mean 'crop'"),
        (("digits", "--over", "memory", "--values", "9"), "memory=9: a memory of 9 images is smaller than the 10"),
        (("digits", "--over", "inner_steps", "--method", "ewc"), "ewc has no setting 'inner_steps' to vary"),
        (("digits", "--over", "beta", "--set", "beta=1"), "--set beta and --over beta contradict each other"),
        (("digits", "--over", "beta", "--preset", "bst"), "did you mean 'best'"),
        (("digits", "--over", "beta", "--seeds", "x"), "seeds are numbers"),
        (("digits", "--over", "beta", "--format", "html"), "no format 'html'"),
        (("digits", "--over", "beta", "--format", "json"), "for JSON use --json"),
        (("digits", "--over", "beta", "--out", __file__), "is a file; --out names a folder"),
        (("digit", "--over", "beta"), "did you mean 'digits'"),
    ],
)
def test_wrong_words_end_with_one_line_before_anything_starts(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(*words, "--runs", tmp_path) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_help_and_the_document_name_every_sweep_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Sweep parameter: {', '.join(SWEEP_PARAMETERS)}." in said
    page = (Path(__file__).parents[2] / "docs" / "ablate.md").read_text(encoding="utf-8")
    for parameter in SWEEP_PARAMETERS.values():
        values = ", ".join(f"{value}" for value in parameter.values)
        assert f"| `{parameter.name}` | {values}" in page


@pytest.mark.slow
def test_what_is_missing_is_trained_by_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "itaml", "ablate", "digits", "--over", "negatives", "--set", "epochs=1"]
    command += ["--jobs", "1", "--runs", str(tmp_path), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    rows = json.loads(ran.stdout)["rows"]
    assert [row["negatives"] for row in rows] == ["own", "seen"]
    names = sorted(path.parent.name for path in tmp_path.glob("digits/*/result.json"))
    assert names == ["itaml-best-epochs=1,negatives=own-seed0", "itaml-best-epochs=1-seed0"]
