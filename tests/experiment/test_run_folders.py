"""What kills, damage and strangers leave in a run's folder: swept, refused in one sentence, or never believed."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from experiment_support import short
from itaml import safe_files
from itaml.errors import CheckpointError, DataError, RunExistsError, UnsafeFileError
from itaml.experiment.event_reader import follow_run
from itaml.experiment.result import Result
from itaml.experiment.run_folder import CHECKPOINT, CONFIG, RESULT
from itaml.experiment.runner import run_experiment
from itaml.safe_files import json_digest, leftover, parse_json, read_json, sweep, write_json

pytestmark = pytest.mark.usefixtures("small_benchmarks")


class Killed(BaseException):
    """In place of a kill."""


def killed_while_writing(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a run and end it, as a kill does, before the file `name` gets its name."""

    def replace(self: Path, target: Path) -> None:
        os._exit(9) if Path(target).name == name else os.replace(self, target)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Path, "replace", replace)
        run_experiment(short(), folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"force": True}])
def test_a_kill_while_the_configuration_is_first_written_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    killed_while_writing(CONFIG, tmp_path, monkeypatch)
    assert [leftover(path.name) for path in tmp_path.iterdir()] == [True]
    run_experiment(short(), tmp_path, **options)
    assert (tmp_path / RESULT).is_file()
    assert not [path for path in tmp_path.iterdir() if leftover(path.name)]


def test_the_litter_of_a_kill_is_swept_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_while_writing(CHECKPOINT, tmp_path, monkeypatch)
    assert len([path for path in tmp_path.iterdir() if leftover(path.name)]) == 1
    with pytest.raises(RunExistsError, match="unfinished run"):
        run_experiment(short(), tmp_path)
    run_experiment(short(), tmp_path, resume=True)
    assert not [path for path in tmp_path.iterdir() if leftover(path.name)]


def test_a_file_that_is_being_written_is_not_swept(tmp_path: Path) -> None:
    ours, theirs = tmp_path / ".a.1.partial", tmp_path / ".b.2.partial"
    other, link = tmp_path / "c.partial", tmp_path / ".link.partial"
    for path in (ours, theirs, other):
        path.touch()
    link.symlink_to(other)
    with theirs.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.2.partial", ".link.partial", "c.partial"]


def test_a_run_that_is_deleted_loses_its_configuration_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(short(), tmp_path)
    removed: list[str] = []
    real = Path.unlink

    def unlink(self: Path, missing_ok: bool = False) -> None:
        removed.append(self.name)
        real(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    run_experiment(short(), tmp_path, force=True)
    assert removed.index(CONFIG) == 3
    assert set(removed[:3]) == {CHECKPOINT, RESULT, "events.jsonl"}


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_result_with_a_changed_number_is_not_believed(tmp_path: Path) -> None:
    run_experiment(short(), tmp_path)
    changed(tmp_path / RESULT, '"seed": 0', '"seed": 1')
    with pytest.raises(DataError, match=r"result.json is damaged: its checksum does not fit"):
        Result.load(tmp_path)
    with pytest.raises(CheckpointError, match="checksum does not fit"):
        run_experiment(short(), tmp_path, resume=True)


def test_a_configuration_with_a_changed_value_is_not_believed(tmp_path: Path) -> None:
    run_experiment(short(), tmp_path)
    changed(tmp_path / CONFIG, '"epochs": 2', '"epochs": 3')
    with pytest.raises(CheckpointError, match=r"config.json is damaged"):
        run_experiment(short(epochs=3), tmp_path, resume=True)


def test_files_of_older_versions_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    first = run_experiment(short(), tmp_path)
    for name in (CONFIG, RESULT):
        value = json.loads((tmp_path / name).read_text(encoding="utf-8"))
        assert list(value)[-1] == "checksum"
        assert value.pop("checksum") == json_digest(value)
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    assert run_experiment(short(), tmp_path, resume=True).to_dict() == first.to_dict()


def test_the_checksum_does_not_depend_on_order_or_spaces(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": {2: 0.1, 10: None}, "a": "é"}, checksum=True)
    value = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    (tmp_path / "a.json").write_text(json.dumps(dict(reversed(value.items()))), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"b": {"2": 0.1, "10": None}, "a": "é"}


HOSTILE = {
    "nested": "[" * 100_000,
    "nested objects": '{"a":' * 100_000,
    "digits": "9" * 5000,
    "digits inside": '{"seed": ' + "9" * 5000 + "}",
    "list": "[1]",
    "empty": "",
    "binary": "\x00\x01",
    "wrong compute": '{"compute": 3}',
    "wrong settings": '{"method": "itaml", "settings": 3}',
    "wrong method": '{"method": ["itaml"]}',
    "deep": '{"a": ' * 400 + "1" + "}" * 400,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", [CONFIG, RESULT])
def test_hostile_text_is_refused_in_one_sentence(tmp_path: Path, name: str, kind: str) -> None:
    config = short()
    write_json(tmp_path / CONFIG, config.model_dump(mode="json"))
    (tmp_path / name).write_text(HOSTILE[kind], encoding="utf-8")
    with pytest.raises((CheckpointError, DataError)) as caught:
        run_experiment(config, tmp_path, resume=True)
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RESULT)
    with pytest.raises(DataError, match="not a regular file"):
        Result.load(tmp_path)
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(UnsafeFileError, match="named pipe"):
        follow_run(tmp_path)[0].read()


EVENTS: list[Any] = [
    {"event": "RunStarted"},
    {
        "event": "RunStarted",
        "benchmark": "b",
        "method": "m",
        "preset": "p",
        "seed": 0,
        "tasks": 10**9,
        "resumed": False,
    },
    {"event": "TaskStarted", "task": -1, "epoch": 0, "epochs": 1},
    {"event": "TaskStarted", "task": "0", "epoch": None, "epochs": [1]},
    {"event": "EpochDone", "task": 0, "epoch": 1, "epochs": 1, "loss": "x", "seconds": 1},
    {"event": "EpochDone", "task": 0, "epoch": 1, "epochs": 1, "loss": 1.0, "seconds": -1},
    {"event": "TaskDone", "task": 0, "row": 3},
    {"event": "TaskDone", "task": 0, "row": {"index": 0}},
    {"event": "RunDone", "final": None},
    {"event": {"a": 1}},
    {"event": "EpochDone", "time": "yesterday"},
]


def test_damaged_events_are_passed_over(tmp_path: Path) -> None:
    lines = [json.dumps(event) for event in EVENTS]
    lines += [
        "[" * 100_000,
        '{"event": ' * 50_000,
        "9" * 5000,
        '{"event": "RunDone", "final": NaN}',
        "\x00",
        "{}",
        "[]",
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tail, state = follow_run(tmp_path)
    before = dict(vars(state))
    for event in tail.read():
        state.take(event)
    assert vars(state) == before


def test_hostile_json_is_one_kind_of_error() -> None:
    for text in ("[" * 100_000, "9" * 5000, "", "{", "\x00", b"\xff"):
        with pytest.raises(ValueError, match=r".+"):
            parse_json(text)
    assert safe_files.JSON_LIMIT < 1 << 30
