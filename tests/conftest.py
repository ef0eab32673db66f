"""One thread for every test, so that times are steady and bits repeat; and a tiny stream."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

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
