"""The command line as its user meets it: words, exit codes, files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from itaml.cli.main import _run
from itaml.storage import load_state

QUICK = ["--set", "epochs=1", "--set", "backbone=mlp"]


def itaml(*words: str | Path) -> int:
    return _run([str(word) for word in words])


def test_run_writes_the_documented_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert itaml("run", "digits", "--out", tmp_path / "run", *QUICK) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["format"] == 1
    assert [row["classes"] for row in result["tasks"]] == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"], ["8", "9"]]
    assert set(result["final"]["continuum"]) == {"1", "20"}
    assert result["accuracy_matrix"][0][1:] == [None] * 4
    matrix_mean = sum(result["accuracy_matrix"][-1]) / 5
    assert matrix_mean == pytest.approx(
        result["final"]["continuum"]["1"]["class"], abs=0.01
    )  # tasks of nearly one size
    printed = capsys.readouterr()
    assert f"{100 * result['final']['continuum']['20']['class']:.2f} %  class accuracy, p=20" in printed.out
    assert "task 5/5  epoch 1/1  loss" in printed.err  # plain lines when not on a terminal
    assert str(tmp_path / "run") in printed.out


def test_quiet_prints_nothing_and_json_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert itaml("run", "digits", "--out", tmp_path / "a", "--quiet", *QUICK) == 0
    quiet = capsys.readouterr()
    assert (quiet.out, quiet.err) == ("", "")
    assert itaml("run", "digits", "--out", tmp_path / "a", "--resume", "--json", *QUICK) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["final"] == json.loads((tmp_path / "a" / "result.json").read_text())["final"]


def test_uneven_split_and_single_p(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert itaml("run", "digits", "--split", "4,3,2,1", "--out", tmp_path / "a", "--json", *QUICK) == 0
    assert [len(row["classes"]) for row in json.loads(capsys.readouterr().out)["tasks"]] == [4, 3, 2, 1]
    assert itaml("run", "digits", "-p", "1", "--out", tmp_path / "b", *QUICK) == 0
    assert "class accuracy, p=1 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "digts"], "no benchmark 'digts'; did you mean 'digits'?"),
        (["run", "digits", "--method", "itml"], "no method 'itml'; did you mean 'itaml'?"),
        (["run", "digits", "--preset", "pper"], "did you mean 'paper'?"),
        (["run", "digits", "--set", "bta=1"], "no setting 'bta'; did you mean 'beta'?"),
        (["run", "digits", "--set", "epochs=many"], "setting epochs: must be a valid integer"),
        (["run", "digits", "--set", "backbone=mpl"], "no backbone 'mpl'; did you mean 'mlp'?"),
        (["run", "digits", "--set", "augment=crp"], "no augmentation 'crp'; did you mean 'crop'?"),
        (["run", "digits", "--set", "optimizer=adm"], "no optimizer 'adm'; did you mean 'adam'?"),
        (["run", "digits", "--set", "seeds.initt=1"], "no seed 'initt'; did you mean 'init'?"),
        (["run", "digits", "--mehtod", "x"], "--method"),
        (["run", "digits", "-p", "0"], "greater than or equal to 1"),
        (["run", "digits", "--split", "5,4"], "task sizes 5,4 add up to 9, not to 10"),
        (["run", "digits", "--split", "a"], "a split is a list of numbers such as 4,3,2,1, not 'a'"),
        (["run", "digits", "--set", "memory=5"], "a memory of 5 images is smaller than the 10 classes"),
        (["run", "digits", "--set", "engine=fused", "--set", "inner_steps=2"], "engine=fused computes update=paper"),
        (["run", "digits", "--device", "tpu"], "option device: must be 'auto', 'cpu', 'cuda' or 'mps'"),
        (["list", "bakbones"], "did you mean 'backbones'?"),
        (["bound", "--accuracy", "0.6"], "--classes-per-task and --tasks are needed"),
        (["bound", "--split", "2,2"], "give either --accuracy or --accuracies"),
        (["bound", "--accuracies", "0.6,x", "--split", "2,2"], "numbers separated by commas (got '0.6,x')"),
        (["bound", "--accuracy", "0.6", "--split", "2,2", "--rounding", "up"], "round or floor (got 'up')"),
        (["bound", "--accuracy", "0", "--classes-per-task", "2", "--tasks", "9", "--gamma", "0.9"], "no continuum"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--runs", str(tmp_path)] if words[0] == "run" else []
    assert itaml(*words, *runs) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_an_existing_run_is_never_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert itaml("run", "digits", "--out", tmp_path / "run", "-q", *QUICK) == 0
    before = (tmp_path / "run" / "result.json").read_bytes()
    assert itaml("run", "digits", "--out", tmp_path / "run", "-q", *QUICK) == 2
    assert "--resume goes on with it, --force deletes it" in capsys.readouterr().err
    assert (tmp_path / "run" / "result.json").read_bytes() == before
    assert itaml("run", "digits", "--out", tmp_path / "run", "-q", "--force", "--seed", "1", *QUICK) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["seed"] == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert itaml("run", "digits", "--out", tmp_path / "mine", "--force", *QUICK) == 2
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_bound_of_the_paper_with_floor(capsys: pytest.CaptureFixture[str]) -> None:
    log = "0.891,0.752,0.680,0.583,0.528,0.473,0.415,0.387,0.356,0.337"  # the authors', CIFAR-100 at p = 1
    for rounding, n in [("floor", 17), ("round", 22)]:
        words = f"bound --accuracies {log} --classes-per-task 10 --tasks 10 --rounding {rounding} --json"
        assert itaml(*words.split()) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["n"], found["rounding"]) == (n, rounding)


def test_bound_and_lists_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = "bound --accuracy 0.6 --classes-per-task 10 --tasks 10 --gamma 0.95 --json"
    assert itaml(*words.split()) == 0
    prediction = json.loads(capsys.readouterr().out)
    assert prediction["n"] == 3
    assert prediction["task_accuracy"] == pytest.approx(1 - (4 / 11) ** 3)  # at least one of three, P0_hat = 7/11
    for kind in ("methods", "benchmarks", "backbones", "presets"):
        assert itaml("list", kind, "--json") == 0
        assert all(row["summary"] for row in json.loads(capsys.readouterr().out))
    assert itaml("list", "models", "--json") == 0  # the name of 0.2
    assert "resnet18-third" in [row["name"] for row in json.loads(capsys.readouterr().out)]


def test_help_names_every_command_in_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert itaml("--help") == 0
    printed = capsys.readouterr().out
    commands = dict(line.split(maxsplit=1) for line in printed.split("Commands:\n", 1)[1].splitlines())
    assert {"learn", "predict", "run", "compare", "list", "bound", "data", "doctor"} <= set(commands)
    assert all(summary.endswith(".") and not summary.endswith("...") for summary in commands.values())


@pytest.mark.parametrize(("words", "commands"), [((), ("learn", "run", "compare")), (("data",), ("list", "fetch"))])
def test_a_group_without_a_command_prints_its_help_as_it_is(
    words: tuple[str, ...], commands: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert itaml(*words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    first_words = {line.split()[0] for line in printed.out.splitlines() if line.strip()}
    assert {"Usage:", *commands} <= first_words  # one command per line


def test_a_run_with_overrides_does_not_collide_with_the_run_of_the_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for epochs in ("1", "2"):
        assert itaml("run", "digits", "--runs", tmp_path, "--set", f"epochs={epochs}", "--json") == 0
        assert json.loads(capsys.readouterr().out)["folder"].endswith(f"/digits/itaml-best-epochs={epochs}-seed0")


def test_ctrl_c_saves_and_resume_ends_in_the_same_bits(tmp_path: Path) -> None:
    words = ["run", "digits", "--set", "epochs=12", "--checkpoint-seconds", "600"]
    command = [sys.executable, "-m", "itaml", *words, "--threads", "1"]
    with subprocess.Popen([*command, "--out", str(tmp_path / "cut")], stderr=subprocess.PIPE, text=True) as process:
        log = tmp_path / "cut" / "events.jsonl"
        deadline = time.monotonic() + 60
        while not (log.exists() and "EpochDone" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert "repeat the command with --resume" in said
    assert not (tmp_path / "cut" / "result.json").exists()
    assert itaml(*words, "--out", tmp_path / "cut", "--resume", "-q") == 0
    assert itaml(*words, "--out", tmp_path / "whole", "-q") == 0
    kind = "run checkpoint"
    cut, whole = (load_state(tmp_path / name / "checkpoint.safetensors", kind=kind) for name in ("cut", "whole"))
    for name, value in whole["learner"]["model"].items():
        assert value.equal(cut["learner"]["model"][name]), name
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("cut", "whole")]
    assert results[0]["final"] == results[1]["final"]
