"""Memory that training frees is kept for the next step, where the C library is glibc."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from itaml.hardware import allocator
from process_groups import environment

PROGRAM = """
import resource, torch
from itaml.hardware.allocator import keep_freed_memory
torch.set_num_threads(1)
assert keep_freed_memory()
def step():
    blocks = [torch.ones(1_500_000) for _ in range(8)]  # 48 MB
    del blocks
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults() -> int:
    """Return how many pages the system had to give to a process that repeats a step three times."""
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return int(ended.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_a_step_gets_the_pages_of_the_steps_before() -> None:
    assert faults() < 100  # of 36,000


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "0")
    assert not allocator.keep_freed_memory()
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.keep_freed_memory()
