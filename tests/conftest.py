"""One thread for every test, so that times are steady and bits repeat; and a tiny stream."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

from itaml.data.benchmarks import BENCHMARKS, Benchmark
from itaml.data.stream import TaskStream
from support import synthetic_stream

settings.register_profile("itaml", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("itaml")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_stream() -> TaskStream:
    """Three tasks of two classes, ten 4x4 training pictures and seven test pictures each."""
    return synthetic_stream()


@pytest.fixture
def small_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two benchmarks of the tests' own, `small` and `small8`, whose whole runs take a fraction of a second."""
    for name, source, model in [("small", "load_small", "mlp"), ("small8", "load_small_8x8", "resnet18-small")]:
        benchmark = Benchmark(name, "for tests", f"support:{source}", tasks=2, model=model, memory=8, p=3)
        monkeypatch.setitem(BENCHMARKS, name, benchmark)
