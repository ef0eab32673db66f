"""`itaml compare` at the command line: the table, failures at the end, wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handmade import handmade
from itaml.cli.batch_progress import Overview
from itaml.cli.main import main
from itaml.experiment.sweep.compare import plan
from itaml.experiment.sweep.job import Job
from itaml.learners import LEARNERS


def _finished(
    runs: Path, *methods: str, benchmark: str = "digits", seeds: tuple[int, ...] = (0, 1), recipe: str | None = None
) -> list[Job]:
    """Put finished runs where the command looks for them; iTAML is at 90 and 92 %, the others at 80 and 82."""
    jobs = plan(benchmark, methods=methods, presets=["best"], seeds=seeds, runs=runs, recipe=recipe)
    for job in jobs:
        last = (0.9 if job.config.method == "itaml" else 0.8) + 0.02 * job.config.seed
        result = handmade(method=job.config.method, seed=job.config.seed, last=last, benchmark=benchmark)
        config = job.config.model_dump(mode="json")
        job.folder.mkdir(parents=True)
        (job.folder / "result.json").write_text(json.dumps(result | {"config": config}), encoding="utf-8")
        (job.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return jobs


def _main(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_table_of_finished_runs_is_printed_without_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _finished(tmp_path, "itaml", "replay")
    assert _main("digits", "--methods", "itaml,replay", "--seeds", "0,1", "--runs", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert "4 runs: 4 finished already, 0 to do" in said.err
    head, itaml, replay = said.out.splitlines()[:3]
    assert head.split()[:2] == ["method", "seeds"]
    assert "*91.00 ± 1.41" in itaml
    assert " 81.00 ± 1.41" in replay


def test_a_recipe_has_runs_of_its_own_and_notes_on_what_methods_go_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _finished(tmp_path, "itaml", "bic", recipe="strong")
    assert [job.folder.name for job in jobs[:2]] == ["itaml-best-strong-seed0", "itaml-best-strong-seed1"]
    words = ("digits", "--methods", "itaml,bic", "--recipe", "strong", "--seeds", "0,1", "--runs", str(tmp_path))
    assert _main(*words) == 0
    said = capsys.readouterr()
    assert "4 runs: 4 finished already, 0 to do" in said.err
    assert "bic has a teacher of its own: without distill." in said.out


def test_all_methods_at_120_columns_are_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _finished(tmp_path, "all", benchmark="mnist-5")
    monkeypatch.setattr("itaml.cli.tables.line_width", lambda: 120)
    assert _main("mnist-5", "--methods", "all", "--seeds", "0,1", "--runs", str(tmp_path), "-q") == 0
    *parts, notes = capsys.readouterr().out.split("\n\n")
    names = list(dict.fromkeys(job.config.method for job in jobs))
    assert len(names) == len(LEARNERS.names())
    assert len(parts) == 2
    for part in parts:
        assert [line.split()[0] for line in part.splitlines()[-len(names) :]] == names
        assert max(map(len, part.splitlines())) <= 120
        assert part.count("±") == part.count(" ± ")
    assert max(map(len, notes.splitlines())) <= 120


def test_published_figures_are_beside_ours_in_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _finished(tmp_path, "itaml", "ewc", benchmark="mnist-5", seeds=(0,))
    assert _main("mnist-5", "--methods", "itaml,ewc", "--runs", str(tmp_path), "--format", "markdown", "-q") == 0
    out = capsys.readouterr().out
    assert "| class p=1 published | class p=20 | class p=20 published |" in out
    assert "| 97.95 |" in out
    assert "| 19.80 |" in out


def test_a_run_that_cannot_go_on_is_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = _finished(tmp_path, "itaml", "replay")
    (jobs[0].folder / "config.json").write_text("{}", encoding="utf-8")
    (jobs[3].folder / "result.json").write_text('{"format": 1', encoding="utf-8")
    assert _main("digits", "--methods", "itaml,replay", "--seeds", "0,1", "--runs", str(tmp_path), "--json") == 1
    said = capsys.readouterr()
    assert [(row["method"], row["seeds"]) for row in json.loads(said.out)["rows"]] == [("itaml", 1), ("replay", 1)]
    assert "failed: itaml (best), seed 0: " in said.err
    assert "failed: replay (best), seed 1: " in said.err


def test_figure_5_is_drawn_beside_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _finished(tmp_path, "itaml", "joint", seeds=(0,))
    words = ("digits", "--methods", "itaml,joint", "--runs", str(tmp_path), "--figure5", "--format", "csv")
    assert _main(*words) == 0
    text = (tmp_path / "digits" / "figure5.svg").read_text(encoding="utf-8")
    for title in ("Task-agnostic, p = 20", "Task-aware", "No inference update"):
        assert title in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits", "--format", "html"), "no format 'html'"),
        (("digits", "--format", "json"), "for JSON use --json, not --format json"),
        (("digits", "--format", "csv", "--json"), "give either --json or --format csv"),
        (("digits", "--seeds", "one"), "seeds are numbers"),
        (("digits", "--seeds", ","), "at least one"),
        (("digit",), "did you mean 'digits'"),
        (("digits", "--methods", "itaml,replaay"), "did you mean 'replay'"),
        (("digits", "--methods", "itaml,ewc", "--set", "inner_steps=2"), "ewc on digits: no setting 'inner_steps'"),
    ],
)
def test_wrong_words_end_with_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(*words, "--runs", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_plain_progress_is_a_line_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = plan("digits", methods=["itaml", "replay"], presets=["best"], seeds=[0], runs=tmp_path)
    with Overview(jobs, live=False, quiet=False) as view:
        view.update()
        jobs[0].state = "running"
        view.update()
        view.update()
        jobs[0].state = "done"
        view.update()
        jobs[1].state = "running"
        view.states[1].tasks, view.states[1].epochs, view.states[1].epoch_seconds = 5, 2, 3.0
        assert view.left() == pytest.approx(30.0)  # five tasks of two epochs of three seconds
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "2 runs: 0 finished already, 2 to do",
        "itaml (best), seed 0: running",
        "itaml (best), seed 0: done",
    ]
