"""A run that is stopped, killed or out of disk, and resumed, ends in the same bits as one that was left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from experiment_support import checkpoint, numbers, short
from itaml.errors import InterruptedRunError
from itaml.events import BatchDone, EpochDone, Event
from itaml.experiment.build import make_learner, make_stream
from itaml.experiment.event_log import RunStarted
from itaml.experiment.run_config import RunConfig
from itaml.experiment.run_folder import CHECKPOINT, EVENTS, RESULT
from itaml.experiment.runner import run_experiment
from support import same_bits

pytestmark = pytest.mark.usefixtures("small_benchmarks")

VARIANTS: dict[str, dict[str, Any]] = {
    "fused, momentum": {"engine": "fused", "momentum": 0.9, "weight_decay": 0.01},
    "fused, adam": {"engine": "fused", "optimizer": "adam", "lr": 0.01},
    "loop, momentum, own": {"engine": "loop", "momentum": 0.9, "negatives": "own", "loss": "bce"},
    "loop, radam, two steps": {"engine": "loop", "optimizer": "radam", "lr": 0.01, "inner_steps": 2},
    "released": {"update": "released", "momentum": 0.9, "negatives": "own"},
    "memory in bytes": {"memory_bytes": 2500, "momentum": 0.9},
}
NORM_VARIANTS: dict[str, dict[str, Any]] = {
    "fused, momentum": {"engine": "fused", "momentum": 0.9, "lr": 0.01},
    "fused, radam": {"engine": "fused", "optimizer": "radam", "lr": 0.01},
    "loop, momentum": {"engine": "loop", "momentum": 0.9, "lr": 0.01},
    "loop, adam": {"engine": "loop", "optimizer": "adam", "lr": 0.01},
}


class StopAt:
    """Says yes the `number`-th time it is asked."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def assert_same(left: Path, right: Path) -> None:
    assert same_bits(checkpoint(left), checkpoint(right))
    results = [numbers(json.loads((folder / RESULT).read_text())) for folder in (left, right)]
    assert results[0] == results[1]


def finish(config: RunConfig, folder: Path, **options: Any) -> int:
    """Resume until the run is done; return how often it was stopped."""
    for stops in range(20):
        try:
            run_experiment(config, folder, resume=True, **options)
        except InterruptedRunError:
            continue
        return stops
    raise AssertionError("the run never ends")


@pytest.mark.parametrize("variant", VARIANTS)
def test_stopped_at_any_moment_and_resumed(tmp_path: Path, variant: str) -> None:
    config = short(**VARIANTS[variant], adapt_steps=1, augment="shift")
    run_experiment(config, tmp_path / "whole")
    for moment in (1, 2, 3, 4, 5):  # epochs 1 and 2 of task 1, its end, epochs 1 and 2 of task 2
        folder = tmp_path / str(moment)
        with pytest.raises(InterruptedRunError, match="stopped after task"):
            run_experiment(config, folder, stop=StopAt(moment))
        assert not (folder / RESULT).exists()
        run_experiment(config, folder, resume=True)
        assert_same(tmp_path / "whole", folder)


@pytest.mark.parametrize("variant", NORM_VARIANTS)
def test_a_network_with_batch_norm_stopped_after_every_epoch(tmp_path: Path, variant: str) -> None:
    config = short("small8", **NORM_VARIANTS[variant])
    run_experiment(config, tmp_path / "whole")
    assert finish(config, tmp_path / "parts", stop=lambda: True) == 5  # four epochs, and the end of task 1
    assert_same(tmp_path / "whole", tmp_path / "parts")


class Killed(BaseException):
    """What a callback raises in place of a kill."""


class KillAt:
    """Listens, and ends everything at the `number`-th event of a kind."""

    def __init__(self, kind: type[Event], number: int) -> None:
        self.kind, self.left = kind, number

    def __call__(self, event: Event) -> None:
        self.left -= isinstance(event, self.kind)
        if self.left == 0 and isinstance(event, self.kind):
            raise Killed


@pytest.mark.parametrize(
    ("kind", "number"), [(BatchDone, 1), (BatchDone, 5), (BatchDone, 11), (EpochDone, 1), (EpochDone, 4)]
)
def test_killed_in_the_middle_of_an_epoch_and_resumed(tmp_path: Path, kind: type[Event], number: int) -> None:
    config = short(momentum=0.9, engine="loop")
    run_experiment(config, tmp_path / "whole")
    folder = tmp_path / "killed"
    with pytest.raises(Killed):
        run_experiment(config, folder, checkpoint_seconds=0, callbacks=[KillAt(kind, number)])
    run_experiment(config, folder, resume=True)
    assert_same(tmp_path / "whole", folder)


def test_a_kill_loses_the_work_since_the_last_checkpoint_and_no_more(tmp_path: Path) -> None:
    config, seen = short(), list[Event]()
    with pytest.raises(Killed):  # 24 images in batches of 8: the 5th batch is in epoch 2
        run_experiment(config, tmp_path, checkpoint_seconds=0, callbacks=[KillAt(BatchDone, 5)])
    run_experiment(config, tmp_path, resume=True, callbacks=[seen.append])
    started = next(event for event in seen if isinstance(event, RunStarted))
    assert started.resumed
    assert [(event.task, event.epoch) for event in seen if isinstance(event, EpochDone)] == [(0, 2), (1, 1), (1, 2)]


def test_a_full_disk_at_any_checkpoint_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = short(momentum=0.9)
    run_experiment(config, tmp_path / "whole")
    real = os.fsync
    for number in (3, 5, 7, 9):  # the configuration takes two: the file and its folder
        folder, calls = tmp_path / str(number), [0]

        def full(handle: int, calls: list[int] = calls, number: int = number) -> None:
            calls[0] += 1
            if calls[0] == number:
                raise OSError(28, "No space left on device")
            real(handle)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                run_experiment(config, folder, checkpoint_seconds=0)
        assert not list(folder.glob(".*partial"))
        assert (folder / CHECKPOINT).exists() == (number > 3)
        run_experiment(config, folder, resume=True)
        assert_same(tmp_path / "whole", folder)


def test_checkpoints_are_not_written_more_often_than_asked(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run_experiment(short(), tmp_path, checkpoint_seconds=1000, callbacks=[KillAt(EpochDone, 2)])
    assert not (tmp_path / CHECKPOINT).exists()


def test_resuming_a_finished_run_returns_its_result_and_trains_nothing(tmp_path: Path) -> None:
    seen: list[Event] = []
    first = run_experiment(short(), tmp_path)
    again = run_experiment(short(), tmp_path, resume=True, callbacks=[seen.append])
    assert again == first
    assert seen == []


def test_a_learner_may_be_saved_and_go_on_in_memory(tmp_path: Path) -> None:
    """A state taken in the middle of a task is not changed by what the learner does next."""
    config = short(momentum=0.9, engine="fused")
    stream = make_stream(config, data_root=tmp_path)
    first, second = make_learner(config, stream), make_learner(config, stream)
    states: list[Any] = []

    def callback(event: Event) -> None:
        if isinstance(event, EpochDone) and event.epoch == 1 and not states:
            states.append(first.state_dict())

    first.callback = callback  # type: ignore[attr-defined]
    first.learn(stream[0])
    second.load_state_dict(states[0])
    second.learn(stream[0])
    assert same_bits(first.state_dict(), second.state_dict())


def test_events_are_logged_as_lines_without_batches(tmp_path: Path) -> None:
    run_experiment(short(), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / EVENTS).read_text().splitlines()]
    kinds = [line["event"] for line in lines]
    assert kinds == [
        "RunStarted",
        *(["TaskStarted", "EpochDone", "EpochDone", "TaskDone"] * 2),
        "RunDone",
    ]
    assert lines[1]["classes"] == ["class 0", "class 1"]
    assert all(line["time"] > 1.6e9 for line in lines)
