"""The interface of executors, with one that executes nothing: order, limits, outcomes, stopping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from itaml.config import Compute
from itaml.errors import MissingExtraError, UnknownNameError
from itaml.experiment.sweep.compare import plan
from itaml.experiment.sweep.executors import open_executor
from itaml.experiment.sweep.executors.executor import INTERRUPTED, Executor, Handle, Outcome, Request
from itaml.experiment.sweep.executors.pool import LocalPool
from itaml.experiment.sweep.executors.ray_cluster import RunBoard, execute_task
from itaml.experiment.sweep.job import DONE, FAILED, KEPT, RUNNING, STOPPED, WAITING, Job
from itaml.experiment.sweep.run_queue import RunQueue


class FakeHandle:
    """Starts at once unless the executor is full, and ends when a test says so."""

    def __init__(self, *, started: bool) -> None:
        self.started = started
        self.outcome: Outcome | None = None
        self.calls: list[str] = []

    def poll(self) -> Outcome | None:
        return self.outcome

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


class FakeExecutor:
    def __init__(self, limit: int | None = None, slots: int = 100) -> None:
        self.limit, self.slots = limit, slots
        self.requests: list[Request] = []
        self.handles: list[FakeHandle] = []

    def start(self, request: Request) -> Handle:
        self.requests.append(request)
        self.handles.append(FakeHandle(started=len(self.handles) < self.slots))
        return self.handles[-1]

    def check(self, compute: Compute) -> None: ...

    def threads_for(self, backbone: str | None) -> int:
        return 7

    def close(self) -> None: ...


def _jobs(tmp_path: Path, *seeds: int) -> list[Job]:
    return plan("digits", methods=["replay"], presets=["best"], seeds=seeds, runs=tmp_path)


def test_an_executor_is_given_as_many_runs_as_its_limit_allows(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, 0, 1, 2)
    jobs[0].state = KEPT
    executor = FakeExecutor(limit=1)
    queue = RunQueue(jobs, executor, data_root="data", force=True, checkpoint_seconds=5)
    assert queue.step()
    assert [job.state for job in jobs] == [KEPT, RUNNING, WAITING]
    executor.handles[0].outcome = Outcome(0)
    assert queue.step()
    assert [job.state for job in jobs] == [KEPT, DONE, RUNNING]
    executor.handles[1].outcome = Outcome(1, "the disk is full")
    assert not queue.step()
    assert [(job.state, job.error) for job in jobs] == [(KEPT, ""), (DONE, ""), (FAILED, "the disk is full")]
    request = executor.requests[0]
    assert request["folder"] == str(jobs[1].folder.absolute())
    assert request["data_root"] == str(Path("data").absolute())
    assert (request["force"], request["checkpoint_seconds"], request["threads"]) == (True, 5, 7)
    assert request["config"] == jobs[1].config.model_dump(mode="json")


def test_a_run_that_the_executor_queues_is_waiting_until_it_has_started(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, 0, 1, 2)
    executor = FakeExecutor(slots=2)
    queue = RunQueue(jobs, executor)
    assert queue.step()
    assert len(executor.requests) == 3
    assert [job.state for job in jobs] == [RUNNING, RUNNING, WAITING]
    executor.handles[0].outcome = Outcome(0)
    executor.handles[2].started = True
    assert queue.step()
    assert [job.state for job in jobs] == [DONE, RUNNING, RUNNING]
    assert len(executor.requests) == 3  # no run is given twice


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_stopping_reaches_every_run_that_the_executor_has(tmp_path: Path, end: str) -> None:
    jobs = _jobs(tmp_path, 0, 1, 2)
    executor = FakeExecutor(limit=2, slots=1)
    queue = RunQueue(jobs, executor)
    queue.step()
    getattr(queue, end)()
    assert [handle.calls for handle in executor.handles] == [[end], [end]]
    for handle in executor.handles:
        handle.outcome = Outcome(INTERRUPTED)
    assert not queue.step()
    assert [job.state for job in jobs] == [STOPPED] * 3


def test_executors_are_opened_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("itaml.hardware.machine.cores", lambda: 4)
    local = open_executor("local", runs=3, threads=2)
    assert isinstance(local, LocalPool)
    assert (local.limit, local.threads_for("mlp")) == (3, 2)
    with pytest.raises(UnknownNameError, match="no executor 'rya'; did you mean 'ray'"):
        open_executor("rya", runs=1)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"itaml\[ray\]"):
        open_executor("ray", runs=1)


class DirectActor:
    """An actor whose methods are called in this process, as `ray.get(actor.method.remote(...))`."""

    def __init__(self, actor: object) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return type("Method", (), {"remote": staticmethod(getattr(self._actor, name))})


def test_a_run_that_ray_starts_again_deletes_nothing_and_a_stopped_one_never_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", type("Ray", (), {"get": staticmethod(lambda value: value)}))
    asked: list[bool] = []

    def execute(request: Request, *, stop: Any) -> Outcome:
        asked.append(request["force"])
        return Outcome(1, "no room") if stop() else Outcome(0)

    monkeypatch.setattr("itaml.experiment.sweep.worker.execute", execute)
    actor = RunBoard()
    board, request = DirectActor(actor), {"folder": "runs/a", "force": True}
    assert execute_task(request, board) == (0, "")
    assert execute_task(request, board) == (0, "")
    assert asked == [True, False]
    assert actor.started() == ["runs/a"]
    actor.stop()
    assert execute_task(request, board) == (INTERRUPTED, "")
    assert asked == [True, False]


def test_both_executors_fulfil_the_interface() -> None:
    executors: list[Executor] = [FakeExecutor(), LocalPool(1)]
    assert [executor.limit for executor in executors] == [None, 1]
