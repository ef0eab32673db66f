"""Comparisons: what is planned, what runs beside what, what a failure and a kill leave behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from itaml.errors import UnknownNameError, UsageError
from itaml.experiment.runner import run_experiment
from itaml.experiment.sweep.compare import plan, select_presets
from itaml.experiment.sweep.executors.pool import LocalPool, LocalProcess
from itaml.experiment.sweep.job import DONE, FAILED, KEPT, RUNNING, STOPPED, WAITING, Job
from itaml.experiment.sweep.run_queue import RunQueue
from itaml.experiment.sweep.worker import waiting_lock
from itaml.learners import LEARNERS

# A job without torch: it does what the first word of its folder's name says.
FAKE = """
import json, pathlib, signal, sys, time
order = json.loads(sys.stdin.read())
folder = pathlib.Path(order["folder"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "order.json").write_text(json.dumps(order))
what = order["config"]["method"]
if what == "finetune":
    sys.exit("the disk\\nis full")
if what == "joint":
    signal.raise_signal(signal.SIGKILL)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
for _ in range(300 if what == "ewc" else 1):
    time.sleep(0.1)
"""


def _plan(tmp_path: Path, *methods: str, seeds: tuple[int, ...] = (0,), **rest: object) -> list[Job]:
    return plan("digits", methods=methods, presets=["best"], seeds=seeds, runs=tmp_path, **rest)  # type: ignore[arg-type]


def _fake(jobs: list[Job], limit: int) -> RunQueue:
    return RunQueue(jobs, LocalPool(limit, command=(sys.executable, "-c", FAKE)))


def test_methods_and_presets_are_chosen_by_name() -> None:
    assert select_presets(["itaml", "replay"], ["best"]) == [("itaml", "best"), ("replay", "best")]
    assert select_presets(["itaml"], ["paper", "best"]) == [("itaml", "paper"), ("itaml", "best")]
    assert select_presets(["itaml:paper", "itaml:paper"], ["best"]) == [("itaml", "paper")]
    assert [method for method, _ in select_presets(["all"], ["best"])] == list(LEARNERS.names())


@pytest.mark.parametrize(
    ("methods", "presets", "words"),
    [
        (["itmal"], ["best"], "did you mean 'itaml'"),
        (["itaml"], ["bset"], "none of the presets bset"),
        (["itaml:papr"], ["best"], "did you mean 'paper'"),
        (["itaml", "replay"], ["best", "bests"], "no preset 'bests'"),
    ],
)
def test_names_that_do_not_exist_are_refused(methods: list[str], presets: list[str], words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        select_presets(methods, presets)


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one method"):
        _plan(tmp_path)


def test_a_plan_keeps_what_is_finished_and_runs_other_settings_in_folders_of_their_own(tmp_path: Path) -> None:
    first, second, third = _plan(tmp_path, "replay", "finetune", seeds=(0, 0, 1))[:3]
    for job in (first, second):
        job.folder.mkdir(parents=True)
        (job.folder / "config.json").write_text(job.config.model_dump_json(), encoding="utf-8")
    (first.folder / "result.json").write_text("{}", encoding="utf-8")
    again = _plan(tmp_path, "replay", "finetune", seeds=(0, 1))
    assert [job.state for job in again] == [KEPT, WAITING, WAITING, WAITING]
    other = _plan(tmp_path, "replay", seeds=(0, 1, 2), overrides={"lr": 0.5})
    assert [job.state for job in other] == [WAITING, WAITING, WAITING]
    assert len({job.folder for job in (*again, *other)}) == 7
    assert third.folder != second.folder


def test_a_plan_refuses_a_folder_that_was_started_with_other_settings(tmp_path: Path) -> None:
    (job,) = _plan(tmp_path, "replay")
    changed = job.config.model_dump(mode="json")
    changed["settings"]["lr"] = 0.5
    job.folder.mkdir(parents=True)
    (job.folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    (again,) = _plan(tmp_path, "replay")
    assert again.state == FAILED
    assert "other settings (settings.lr)" in again.error


def test_a_failing_run_takes_no_other_with_it(tmp_path: Path) -> None:
    jobs = _plan(tmp_path, "finetune", "replay", "joint", "itaml")
    limit = 0

    def on_step() -> None:
        nonlocal limit
        limit = max(limit, sum(job.state == RUNNING for job in jobs))

    _fake(jobs, 2).run(on_step=on_step, every=0.02)
    assert {job.config.method: job.state for job in jobs} == {
        "finetune": FAILED,
        "replay": DONE,
        "joint": FAILED,
        "itaml": DONE,
    }
    assert (jobs[0].error, jobs[2].error) == ("is full", "ended by signal 9")
    assert limit == 2


def test_cores_are_shared_among_the_runs_but_an_mlp_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itaml.experiment.sweep.executors.pool.cores", lambda: 8)
    jobs = _plan(tmp_path / "mlp", "replay")
    jobs += _plan(tmp_path / "resnet", "replay", overrides={"backbone": "resnet18-small"})
    _fake(jobs, 2).run(every=0.02)
    orders = [json.loads((job.folder / "order.json").read_text(encoding="utf-8")) for job in jobs]
    assert [order["threads"] for order in orders] == [1, 4]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_stopping_ends_every_job_and_starts_no_more(tmp_path: Path, end: str) -> None:
    jobs = _plan(tmp_path, "ewc", "replay", seeds=(0, 1))
    queue = _fake(jobs, 1)
    _until(lambda: queue.step() and (jobs[0].folder / "order.json").exists())
    handle = jobs[0].handle
    assert isinstance(handle, LocalProcess)
    getattr(queue, end)()
    _until(lambda: not queue.step())
    assert handle.process.poll() is not None
    assert [job.state for job in jobs] == [STOPPED] * 4


def test_a_second_job_waits_for_the_first(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from itaml.experiment.sweep import worker\nwith "
        "worker.waiting_lock(pathlib.Path(sys.argv[1])): pass"
    )
    with waiting_lock(tmp_path / "a"):
        other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a")])
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.0)
    assert other.wait(60) == 0


@pytest.mark.slow
def test_killed_half_way_only_what_is_missing_is_run_again(tmp_path: Path) -> None:
    """Two real runs of digits; the second is killed while it is under way, and a later comparison finishes it."""
    short = {"epochs": 2}
    jobs = _plan(tmp_path, "finetune", seeds=(0, 1), overrides=short)
    run_experiment(jobs[0].config, jobs[0].folder)
    queue = RunQueue(jobs[1:], LocalPool(1), checkpoint_seconds=0)
    _until(lambda: queue.step() and (jobs[1].folder / "checkpoint.safetensors").exists())
    queue.kill()
    assert not (jobs[1].folder / "result.json").exists()
    kept = (jobs[0].folder / "result.json").stat().st_mtime_ns
    again = _plan(tmp_path, "finetune", seeds=(0, 1), overrides=short)
    assert [job.state for job in again] == [KEPT, WAITING]
    RunQueue(again, LocalPool(2)).run()
    assert [job.state for job in again] == [KEPT, DONE]
    assert (jobs[0].folder / "result.json").stat().st_mtime_ns == kept
    events = [json.loads(line) for line in (jobs[1].folder / "events.jsonl").read_text().splitlines()]
    starts = [event["resumed"] for event in events if event["event"] == "RunStarted"]
    assert starts == [False, True]


@pytest.mark.slow
def test_the_command_killed_outright_goes_on_when_given_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "itaml", "compare", "digits", "--methods", "finetune", "--seeds", "0,1"]
    command += ["--jobs", "1", "--runs", str(tmp_path), "--set", "epochs=2", "--format", "json"]
    folder = tmp_path / "digits"
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _until(lambda: len(list(folder.glob("*/result.json"))) == 1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "finished already" in ran.stderr
    table = json.loads(ran.stdout)
    assert [(row["method"], row["seeds"]) for row in table["rows"]] == [("finetune", 2)]
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


def _until(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
