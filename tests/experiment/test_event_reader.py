"""Following a run by its event log: half-written lines, restarts, time left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handmade import final, task_row
from itaml.events import EpochDone, Event, TaskStarted
from itaml.experiment.event_log import RunDone, RunStarted, TaskDone
from itaml.experiment.event_reader import EventReader, RunState


def _line(event: Event, **changes: Any) -> str:
    return json.dumps({"time": 1.0, **event.to_json(), **changes}) + "\n"


START = RunStarted("digits", "itaml", "best", 0, tasks=3, resumed=False)
ROW = task_row(continuum={"1": {"class": 0.9, "task": 0.9}})


def test_a_line_that_is_being_written_waits_and_rubbish_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventReader(path)
    assert tail.read() == []
    whole = _line(START)
    path.write_text(whole + "not an event\n[1]\n" + whole[:20], encoding="utf-8")
    assert [event["event"] for event in tail.read()] == ["RunStarted"]
    assert tail.read() == []
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[20:])
    assert [event["event"] for event in tail.read()] == ["RunStarted"]


def test_a_log_that_was_begun_again_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(_line(START) * 3, encoding="utf-8")
    tail = EventReader(path)
    assert len(tail.read()) == 3
    path.unlink()
    path.write_text(_line(START), encoding="utf-8")
    assert len(tail.read()) == 1


def _state(*events: Event) -> RunState:
    state = RunState()
    for event in events:
        state.take({"time": 1.0, **event.to_json()})
    return state


def test_share_and_time_left_count_epochs() -> None:
    epoch = EpochDone(task=0, epoch=1, epochs=4, loss=0.5, images=10, seconds=2.0, lr=0.1)
    state = _state(START, TaskStarted(0, ("a",), 10, epoch=0, epochs=4), epoch)
    assert state.share == pytest.approx(1 / 12)
    assert state.seconds_left == pytest.approx(2.0 * (3 + 2 * 4))
    assert not state.done


def test_a_task_that_is_learned_leaves_the_others() -> None:
    epoch = EpochDone(task=0, epoch=4, epochs=4, loss=0.5, images=10, seconds=2.0, lr=0.1)
    state = _state(START, TaskStarted(0, ("a",), 10, epoch=0, epochs=4), epoch, TaskDone(0, ROW))
    assert state.share == pytest.approx(1 / 3)
    assert state.seconds_left == pytest.approx(2.0 * 2 * 4)
    assert state.rows == [ROW]


def test_a_run_that_is_over_has_nothing_left() -> None:
    state = _state(START, TaskDone(0, ROW), RunDone(final()))
    assert (state.done, state.share, state.seconds_left) == (True, 1.0, 0.0)


def test_a_resumed_run_keeps_the_rows_it_saved_and_drops_what_it_learns_again() -> None:
    resumed = RunStarted("digits", "itaml", "best", 0, tasks=3, resumed=True)
    again = TaskStarted(1, ("b",), 10, epoch=2, epochs=4)
    state = _state(START, TaskDone(0, ROW), TaskDone(1, ROW), resumed, again)
    assert (len(state.rows), state.task, state.epoch) == (1, 1, 2)


def test_kinds_of_events_that_are_not_known_are_passed_over() -> None:
    state = RunState()
    state.take({"event": "SomethingNew", "time": 5.0})
    assert state.changed == 5.0
