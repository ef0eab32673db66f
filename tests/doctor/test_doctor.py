"""`itaml doctor`: which number format is used and why, what is wrong, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from itaml.cli.main import _run
from itaml.doctor import diagnosis
from itaml.doctor.diagnosis import Computing, Diagnosis, Folder, examine
from itaml.doctor.extras import GIVES, Extra, extras, is_installed
from itaml.doctor.problems import Problem, find_problems
from itaml.hardware import probe
from itaml.hardware.probe import Outcome
from itaml.learners import compute
from support import Force

ROOT = Path(__file__).parents[2]


def healthy(**changes: Any) -> Diagnosis:
    """Return the diagnosis of a machine with nothing wrong, apart from the changes."""
    parts = {name: value for name, value in changes.items() if name in Computing.__dataclass_fields__}
    used = Computing(
        torch="2.4.0",
        cuda=None,
        device="cpu",
        devices=("cpu",),
        features=("amx_tile", "avx2"),
        precision="fp32",
        why="precision is fp32",
        probe=None,
        threads=2,
        trains="",
        hub=Path("hub"),
    )
    found = Diagnosis(
        computing=replace(used, **parts),
        torch_error="",
        cpu="a CPU",
        cores=2,
        extras=(),
        missing=(),
        root=Path("data"),
        data=(),
        folders=(Folder("current folder", Path("here"), True, 10**11),),
    )
    return replace(found, **{name: value for name, value in changes.items() if name not in parts})


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU with bf16 instructions and no GPU, where fp32 can be trained."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(compute, "has_bf16_instructions", lambda: True)
    monkeypatch.setattr(probe, "run_trial", lambda formats: ({"fp32": 0.1}, "", True))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("outcome", "used", "ratio", "why"),
    [
        ("fast", "bf16", 1.5, "bf16 is 1.5 times as fast as fp32"),
        ("slow", "fp32", 0.8, "bf16 is 0.8 times as fast as fp32, less than 1.2"),
        ("crashed", "fp32", None, "bf16 does not work on this machine: the trial was ended by SIGILL"),
    ],
)
def test_doctor_says_in_json_why_fp32_or_bf16_is_used(
    forced: Force, outcome: Outcome, used: str, ratio: float | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    forced(outcome)
    assert _run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["precision"]["used"], told["precision"]["why"]) == (used, why)
    assert (told["precision"]["probe"]["outcome"], told["precision"]["probe"]["ratio"]) == (outcome, ratio)
    assert told["can_train"] is True
    assert [problem["problem"] for problem in told["problems"]] == ([why] if outcome == "crashed" else [])


@pytest.mark.usefixtures("on_cpu")
def test_doctor_needs_no_probe_where_the_cpu_has_no_bf16_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "has_bf16_instructions", lambda: False)
    told = examine().to_dict()["precision"]
    assert told == {"used": "fp32", "why": "this CPU has no bf16 instructions that torch can use", "probe": None}


@pytest.mark.usefixtures("on_cpu")
def test_doctor_tells_everything_it_promises(
    forced: Force, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forced("slow")
    (tmp_path / "cifar-100-binary").mkdir()
    for name in ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"):
        (tmp_path / "cifar-100-binary" / name).touch()
    monkeypatch.setenv("ITAML_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert _run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (told["torch"], told["device"], told["devices"]) == (torch.__version__, "cpu", ["cpu"])
    assert told["cpu"]["features"] == sorted(compute.cpu_features())
    assert told["threads"] == torch.get_num_threads()
    assert {one["name"]: one["installed"] for one in told["extras"]}["dev"] is is_installed("hypothesis")
    present = {one["name"] for one in told["data"]["sets"] if one["present"]}
    assert (told["data"]["root"], present) == (str(tmp_path), {"cifar100"})
    assert {one["what"]: one["path"] for one in told["folders"]}["current folder"] == str(tmp_path)
    assert all(one["free_bytes"] > 0 for one in told["folders"])
    assert _run(["doctor"]) == 0
    words = capsys.readouterr().out
    for name in (
        "Python",
        "torch",
        "CPU features",
        "device",
        "precision",
        "probe",
        "threads",
        "extra dev",
        "data sets",
    ):
        assert f"\n{name}" in words
    assert "slow, ratio 0.80" in words
    assert words.endswith("a model can be trained here\n")


@pytest.mark.usefixtures("on_cpu")
def test_doctor_fails_where_not_even_fp32_can_be_trained(
    forced: Force, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forced("crashed")
    monkeypatch.setattr(probe, "run_trial", lambda formats: ({}, "the trial was ended by SIGILL", True))
    assert _run(["doctor"]) == 1
    words = capsys.readouterr().out
    assert "error: a small network cannot be trained in fp32: the trial was ended by SIGILL" in words
    assert words.endswith("no model can be trained here\n")


def test_doctor_fails_where_torch_cannot_be_imported() -> None:
    code = "import sys; sys.modules['torch'] = None; from itaml.cli.main import main; main(['doctor', '--json'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (told["can_train"], told["torch"], told["precision"]) == (False, None, None)
    assert told["problems"][0]["problem"].startswith("torch cannot be imported: ")


def test_a_healthy_machine_has_no_problems() -> None:
    assert find_problems(healthy()) == ()


CRASHED = {"outcome": "crashed", "ratio": None, "reason": "the trial was ended by SIGILL", "file": "cache.json"}


@pytest.mark.parametrize(
    ("changes", "problem", "advice", "fatal"),
    [
        ({"threads": 8}, "torch uses 8 threads, and this process may use 2 cores", "--threads 2", False),
        ({"cuda": "12.4"}, "torch is built for CUDA 12.4, and finds no GPU", "nvidia-smi", False),
        ({"missing": ("scipy",)}, "scipy is not installed", "pip install scipy", True),
        ({"probe": CRASHED}, "bf16 does not work on this machine", "ONEDNN_MAX_CPU_ISA", False),
        ({"probe": CRASHED, "features": ()}, "bf16 does not work on this machine", "delete cache.json", False),
        (
            {"folders": (Folder("cache folder", Path("c"), False, 10**11),)},
            "cannot be written",
            "XDG_CACHE_HOME",
            False,
        ),
        ({"folders": (Folder("current folder", Path("h"), True, 10**8),)}, "100 MB are free in h", "delete", False),
        ({"folders": (Folder("current folder", Path("h"), True, 10**6),)}, "1 MB are free in h", "delete", True),
    ],
)
def test_every_problem_has_one_line_of_advice(changes: dict[str, Any], problem: str, advice: str, fatal: bool) -> None:
    (found,) = find_problems(healthy(**changes))
    assert problem in found.problem
    assert advice in found.advice
    assert "\n" not in found.advice
    assert found.fatal is fatal


def test_a_data_root_that_is_not_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITAML_DATA", "absent")
    assert find_problems(healthy(root=Path("absent"))) == (
        Problem("ITAML_DATA names absent, which is not a folder", "create it, or unset ITAML_DATA"),
    )


def test_every_extra_says_what_it_gives() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(declared) <= set(GIVES)


def test_an_extra_is_installed_when_all_of_its_packages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch>=2.4", 'pytest>=8; extra == "dev"', "absent-package>=1; extra == 'dev'", "numpy; extra == 'report'"]
    monkeypatch.setattr("itaml.doctor.extras.requires", lambda name: lines)
    assert extras() == (Extra("dev", GIVES["dev"], ("absent-package",)), Extra("report", GIVES["report"], ()))
    assert [extra.installed for extra in extras()] == [False, True]


def test_a_folder_that_does_not_exist_is_judged_by_the_one_above_it(tmp_path: Path) -> None:
    found = Folder.at("cache folder", tmp_path / "a" / "b")
    assert found.writable is os.access(tmp_path, os.W_OK)
    assert found.path == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    assert diagnosis.Folder.at("x", Path("relative/folder")).free_bytes > 0
