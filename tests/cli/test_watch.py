"""`itaml watch`: lines when piped, a chart of characters, and what is not a run."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from handmade import final, task_row
from itaml.cli.main import main
from itaml.cli.watch import chart, losses, status
from itaml.events import EpochDone, Event, TaskStarted
from itaml.experiment.event_log import RunDone, RunStarted, TaskDone
from itaml.experiment.event_reader import RunState

CONTINUUM = {"1": {"class": 0.5, "task": 0.9}, "20": {"class": 1.0, "task": 1.0}}
ROW = task_row(continuum=CONTINUUM, task_aware=0.75, no_update=None)
EVENTS: list[Event] = [
    RunStarted("digits", "itaml", "best", 0, 2, resumed=False),
    TaskStarted(0, ("a",), 10, 0, 2),
    EpochDone(task=0, epoch=1, epochs=2, loss=0.5, images=10, seconds=30.0, lr=0.1),
    EpochDone(task=0, epoch=2, epochs=2, loss=0.25, images=10, seconds=30.0, lr=0.1),
    TaskDone(0, ROW),
    TaskDone(1, ROW),
    RunDone(final()),
]


def _lines(events: list[Event]) -> str:
    return "".join(json.dumps({"time": 1.0, **event.to_json()}) + "\n" for event in events)


def _state(count: int) -> RunState:
    state = RunState()
    for event in EVENTS[:count]:
        state.take({"time": 1.0, **event.to_json()})
    return state


def test_a_line_an_event_until_the_run_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(_lines(EVENTS[:3]), encoding="utf-8")

    def go_on() -> None:
        time.sleep(0.2)
        with log.open("a", encoding="utf-8") as file:
            file.write(_lines(EVENTS[3:]))

    thread = threading.Thread(target=go_on)
    thread.start()
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(tmp_path), "--every", "0.05"])
    thread.join()
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(EVENTS)
    assert lines[2] == "digits, itaml (best), seed 0  task 1/2 epoch 1/2  loss 0.500  1 min 30 s left"
    assert lines[-1].endswith("finished after 2 tasks  class p=1 50.00  class p=20 100.00")


def test_once_prints_the_present_state_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.jsonl").write_text(_lines(EVENTS[:4]), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["watch", str(tmp_path), "--once"])
    assert capsys.readouterr().out.splitlines() == [
        "digits, itaml (best), seed 0  task 1/2 epoch 2/2  loss 0.250  1 min 00 s left",
        "",
        "loss of task 1: █▅",
    ]
    (tmp_path / "events.jsonl").write_text(_lines(EVENTS), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["watch", str(tmp_path), "--once"])
    out = capsys.readouterr().out
    assert out.count("digits, itaml") == 1
    assert out.splitlines()[2] == "accuracy in per cent after each task"


def test_the_state_is_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.jsonl").write_text(_lines(EVENTS), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["watch", str(tmp_path), "--once", "--json"])
    state = json.loads(capsys.readouterr().out)
    assert (state["done"], state["tasks"], state["share"]) == (True, 2, 1.0)
    assert state["rows"] == [ROW.to_dict(), ROW.to_dict()]
    with pytest.raises(SystemExit):
        main(["watch", str(tmp_path), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["done"] for line in lines] == [False] * 6 + [True]


def test_the_chart_puts_marks_at_their_values() -> None:
    lines = chart(_state(6), height=12)
    assert lines[1] == " 100 |  x   x"
    assert lines[4] == "  75 |  +   +"
    assert lines[7] == "  50 |  o   o"
    assert lines[-1].split("   ")[-3:] == ["o class p=1", "x class p=20", "+ task-aware"]


def test_losses_are_blocks_of_the_task_under_way() -> None:
    assert losses(_state(4)) == ["loss of task 1: █▅"]
    assert losses(_state(1)) == []
    assert status(RunState()) == "waiting for the run to begin"
    assert chart(RunState()) == []


def test_what_is_not_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(tmp_path)])
    assert ended.value.code == 1
    assert "is not the folder of a run" in capsys.readouterr().err
