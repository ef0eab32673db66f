"""The bf16 probe: what it says of a trial that ends well, badly or not at all, and what it keeps."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from itaml.hardware import probe, trial
from itaml.hardware.probe import Probe, bf16_probe, cache_file, keep, run_probe, run_trial


def child(code: str) -> tuple[str, ...]:
    """Return the command of a child process that runs this instead of the trial."""
    return (sys.executable, "-c", f"import os, signal, sys\n{code}")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is known about bf16 yet; return where it will be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(probe, "_known", {})
    return cache_file()


def count_probes(monkeypatch: pytest.MonkeyPatch, found: Probe, *, conclusive: bool = True) -> list[Probe]:
    run: list[Probe] = []

    def stand_in() -> tuple[Probe, bool]:
        run.append(found)
        return found, conclusive

    monkeypatch.setattr(probe, "run_probe", stand_in)
    return run


SLOW = Probe("slow", 0.8, "bf16 is 0.8 times as fast as fp32, less than 1.2")


@pytest.mark.parametrize(
    ("fp32", "bf16", "outcome", "ratio"),
    [(0.5, 0.25, "fast", 2.0), (0.6, 0.5, "fast", 1.2), (0.59, 0.5, "slow", 1.18), (0.2, 0.4, "slow", 0.5)],
)
def test_bf16_is_fast_from_1_2_times_the_speed_of_fp32(fp32: float, bf16: float, outcome: str, ratio: float) -> None:
    prediction = json.dumps({"seconds": {"fp32": fp32, "bf16": bf16}})
    found, conclusive = run_probe(child(f"print('noise'); print({prediction!r})"))
    assert (found.outcome, found.ratio, conclusive) == (outcome, ratio, True)
    assert found.reason.startswith(f"bf16 is {ratio:g} times as fast as fp32")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGILL)", "the trial was ended by SIGILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the trial was ended by SIGSEGV"),
        ('print(\'{"error": "RuntimeError: could not create a primitive"}\'); sys.exit(1)', "create a primitive"),
        ("sys.exit(3)", "exit code 3"),
        ("print('nonsense')", "exit code 0"),
        ("print('[1, 2]')", "exit code 0"),
        ('print(\'{"seconds": {"fp32": 1}}\')', "no times"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="ends itself by signals of Unix")
def test_a_trial_that_dies_or_answers_nonsense_is_a_crash(
    code: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found, conclusive = run_probe(child(f"print('last words', file=sys.stderr, flush=True); {code}"))
    assert (found.outcome, found.ratio, conclusive) == ("crashed", None, True)
    assert words in found.reason
    assert capfd.readouterr() == ("", "")  # nothing of it reaches the terminal


def test_a_trial_that_never_ends_is_a_crash() -> None:
    found, conclusive = run_probe(child("signal.pause()"), timeout=0.5)
    assert found == Probe("crashed", None, "the trial did not end within 0.5 seconds")
    assert conclusive


@pytest.mark.parametrize(
    "command", [("/no/such/python",), child("os.kill(os.getpid(), signal.SIGKILL)")], ids=["absent", "killed"]
)
def test_a_trial_that_others_ended_is_not_remembered(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(probe, "run_probe", lambda: run_probe(command))
    assert bf16_probe().outcome == "crashed"
    assert not fresh.exists()


def test_a_real_probe_ends_in_one_of_the_outcomes(fresh: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = bf16_probe()
    assert found.outcome in ("fast", "slow", "crashed")
    assert (found.ratio is None) == (found.outcome == "crashed")
    assert "exit code" not in found.reason  # the trial was found and ran
    kept = json.loads(fresh.read_text())
    assert (kept["outcome"], kept["ratio"], kept["torch"]) == (found.outcome, found.ratio, torch.__version__)
    assert capfd.readouterr() == ("", "")


def test_fp32_can_be_trained_in_a_child_process() -> None:
    seconds, failure, _ = run_trial(["fp32"])
    assert failure == ""
    assert set(seconds) == {"fp32"}
    assert seconds["fp32"] > 0


@pytest.mark.parametrize(("slower", "repetitions"), [(1.9, trial.REPETITIONS), (2.1, trial.ENOUGH)])
def test_a_trial_ends_early_if_the_difference_is_clear(
    slower: float, repetitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, steps = [0.0], []

    def step(*_: object, bf16: bool) -> None:
        steps.append(bf16)
        clock[0] += slower if bf16 else 1.0

    monkeypatch.setattr(trial, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(trial, "_step", step)
    assert trial.measure(["fp32", "bf16"]) == pytest.approx({"fp32": 1.0, "bf16": slower})
    assert steps == [False, True] * (1 + repetitions)


def test_a_crash_leaves_no_core_dump() -> None:
    pytest.importorskip("resource")
    code = "import resource; from itaml.hardware import trial; trial._crash_quietly(); "
    code += "print(resource.getrlimit(resource.RLIMIT_CORE))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(0, 0)"


def test_one_probe_serves_a_process_and_the_next(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = count_probes(monkeypatch, SLOW)
    assert [bf16_probe(), bf16_probe()] == [SLOW, SLOW]
    monkeypatch.setattr(probe, "_known", {})  # as in a new process
    assert bf16_probe() == SLOW
    assert len(run) == 1
    assert fresh.exists()


@pytest.mark.usefixtures("fresh")
def test_another_cpu_or_torch_or_kernel_is_probed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    names = {cache_file()}
    for target, name, value in [
        (probe, "cpu_model", lambda: "another CPU"),
        (probe, "cpu_flags", lambda: frozenset({"amx_bf16"})),
        (torch, "__version__", "99.0"),
        (platform, "release", lambda: "99.0"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            names.add(cache_file())
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    assert len(names | {cache_file()}) == 6


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "outcome": "fine", "ratio": 1}'])
def test_a_damaged_cache_is_probed_over(fresh: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    run = count_probes(monkeypatch, SLOW)
    fresh.parent.mkdir(parents=True)
    fresh.write_text(text)
    assert bf16_probe() == SLOW
    assert len(run) == 1
    assert json.loads(fresh.read_text())["outcome"] == "slow"


def test_a_cache_that_cannot_be_written_costs_nothing_but_the_probe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "itaml").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(probe, "_known", {})
    run = count_probes(monkeypatch, SLOW)
    assert [bf16_probe(), bf16_probe()] == [SLOW, SLOW]
    assert len(run) == 1
    keep(SLOW)  # does not raise
