"""`itaml run` and `itaml learn` in two processes: results, resuming, interrupts and errors."""

from __future__ import annotations

import itertools
import json
import signal
import time
from pathlib import Path

import pytest
from PIL import Image

from itaml.cli.main import _run
from itaml.errors import InterruptedRunError
from itaml.experiment.run_config import RunConfig
from itaml.experiment.runner import run_experiment
from itaml.safe_files import read_json
from process_groups import RUN, Ended, finish_group, run_group, same_result, start_group


def errors_of(ended: list[Ended]) -> list[str]:
    return [line for process in ended for line in process.stderr.splitlines() if line.startswith("error:")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert _run([*RUN[2:], "--quiet", "--out", str(folder)]) == 0
    return folder


def interrupt(tmp_path: Path, after: str) -> tuple[Path, list[Ended]]:
    """Start a run in two processes, and send the second a Ctrl-C as soon as the event log holds a text."""
    folder = tmp_path / "run"
    started = start_group([*RUN, "--out", str(folder)])
    log = folder / "events.jsonl"
    while not (log.exists() and after in log.read_text()) and started[0].poll() is None:
        time.sleep(0.005)
    started[1].send_signal(signal.SIGINT)
    return folder, finish_group(started)


@pytest.mark.slow
def test_a_ctrl_c_in_one_process_ends_all_and_one_process_goes_on_to_the_same_result(
    tmp_path: Path, alone: Path
) -> None:
    folder, ended = interrupt(tmp_path, "TaskDone")
    assert [process.returncode for process in ended] == [130, 130], ended
    (error,) = errors_of(ended)
    assert "stopped after task" in error
    assert "--resume" in error
    assert not (folder / "result.json").exists()
    assert ended[1].stdout == ""
    assert _run([*RUN[2:], "--quiet", "--out", str(folder), "--resume"]) == 0
    assert same_result(folder, alone)


def test_two_processes_go_on_with_a_run_of_one_from_the_middle_of_a_task(tmp_path: Path, alone: Path) -> None:
    folder, asked = tmp_path / "run", itertools.count(1)
    config = RunConfig.model_validate(read_json(alone / "config.json"))
    with pytest.raises(InterruptedRunError):
        run_experiment(config, folder, checkpoint_seconds=0, stop=lambda: next(asked) == 4)
    events = (folder / "events.jsonl").read_text()
    assert events.count('"TaskDone"') == 1  # asked after two epochs, the first task, an epoch
    ended = run_group([*RUN, "--out", str(folder), "--resume"])
    assert [process.returncode for process in ended] == [0, 0], ended
    assert (folder / "events.jsonl").read_text().count('"resumed": true') == 1
    assert same_result(folder, alone)


@pytest.mark.slow
def test_a_run_of_two_processes_prints_once_and_is_finished_for_all(tmp_path: Path, alone: Path) -> None:
    folder = tmp_path / "run"
    ended = run_group([*RUN, "--out", str(folder)])
    assert [process.returncode for process in ended] == [0, 0], ended
    assert same_result(folder, alone)
    assert "class accuracy" in ended[0].stdout
    assert (ended[1].stdout, ended[1].stderr) == ("", "")
    again = run_group([*RUN, "--out", str(folder)])
    assert [process.returncode for process in again] == [2, 2]
    (error,) = errors_of(again)
    assert "holds a finished run" in error
    assert all("Traceback" not in process.stderr for process in again)


@pytest.mark.slow
def test_an_error_in_one_process_is_told_once(tmp_path: Path) -> None:
    """The second process reads an image that is none, in its share of a mini-batch."""
    for kind in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / "data" / kind / name).mkdir(parents=True)
            for number in range(6):
                Image.new("RGB", (8, 8), (40 * number, 99, 9)).save(tmp_path / "data" / kind / name / f"{number}.png")
    (tmp_path / "data" / "train" / "b" / "5.png").write_bytes(b"no image")
    run = [
        "-m",
        "itaml",
        "run",
        f"folder:{tmp_path / 'data'}",
        "--split",
        "2",
        "--set",
        "epochs=1",
        "--set",
        "memory=4",
    ]
    run += ["--image-size", "16", "--set", "backbone=mlp", "--out", str(tmp_path / "run"), "--on-bad-image", "fail"]
    ended = run_group(run)
    assert {process.returncode for process in ended} == {1}, ended
    (error,) = errors_of(ended)
    assert "5.png" in error
    assert all("Traceback" not in process.stderr for process in ended)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["itaml", "lda"])
def test_two_processes_learn_a_model(tmp_path: Path, method: str) -> None:
    for name, colour in (("red", (250, 0, 0)), ("green", (0, 250, 0))):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (12, 12), tuple(max(0, c - 9 * number) for c in colour)).save(
                tmp_path / "images" / name / f"{number}.png"
            )
    command = ["learn", str(tmp_path / "model"), str(tmp_path / "images"), "--method", method, "--backbone", "mlp"]
    command = command[:-2] if method == "lda" else [*command, "--epochs", "3"]
    options = ["--set", "backbone=pixels"] if method == "lda" else []
    ended = run_group(["-m", "itaml", *command, *options, "--json"])
    assert [process.returncode for process in ended] == [0, 0], ended
    assert json.loads(ended[0].stdout)["version"] == 1
    assert ended[1].stdout == ""
    command[1] = str(tmp_path / "other")
    assert _run([*command, *options, "--quiet"]) == 0
    infos = []
    for name in ("model", "other"):
        record = json.loads(next((tmp_path / name / "versions" / "000001").glob("*.json")).read_text())
        infos.append([(learn["images"], learn["validation"]) for learn in record["learns"]])
    assert infos[0] == infos[1]
    assert _run(["verify", str(tmp_path / "model")]) == 0
