"""One thread and a cache folder of their own for all tests, forced outcomes of the bf16 probe, and a tiny stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from itaml.data.benchmarks import BENCHMARKS, Benchmark
from itaml.data.stream import TaskStream
from itaml.hardware import probe
from support import Force, synthetic_stream

settings.register_profile("itaml", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("itaml")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache out of the tests, and the tests out of it; workers share one, for one probe is enough."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"))
        patch.setenv("ITAML_RUNTIME", "torch")  # no test waits for an export that it does not test
        yield


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Force:
    """Return a function that decides what the bf16 probe says, in this process and its children."""

    def force(outcome: probe.Outcome) -> None:
        found = {
            "fast": probe.Probe("fast", 1.5, "bf16 is 1.5 times as fast as fp32"),
            "slow": probe.Probe("slow", 0.8, "bf16 is 0.8 times as fast as fp32, less than 1.2"),
            "crashed": probe.Probe("crashed", None, "the trial was ended by SIGILL"),
        }[outcome]
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "forced-cache"))
        monkeypatch.setattr(probe, "_known", {})
        probe.keep(found)
        assert probe.bf16_probe() == found

    return force


@pytest.fixture(scope="session")
def tiny_stream() -> TaskStream:
    """Three tasks of two classes, ten 4x4 training images and seven test images each."""
    return synthetic_stream()


@pytest.fixture
def small_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two benchmarks of the tests' own, `small` and `small8`, whose whole runs take a fraction of a second."""
    for name, source, model in [("small", "load_small", "mlp"), ("small8", "load_small_8x8", "resnet18-small")]:
        benchmark = Benchmark(name, "for tests", f"support:{source}", tasks=2, model=model, memory=8, p=3)
        monkeypatch.setitem(BENCHMARKS, name, benchmark)
