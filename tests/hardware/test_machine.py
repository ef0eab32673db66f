"""What is known about the machine, also where little is."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from itaml.data.root import data_root
from itaml.hardware import machine


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert machine.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert machine.cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.cores() == 1


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS tells by sysctl")
def test_the_cpu_is_named_by_the_system_or_by_its_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPUINFO", info)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert machine.cpu_model() == "riscv64"
    assert machine.cpu_flags() == frozenset()
    core = "CPU\t: {}\nmodel name\t: A CPU: fast\nflags\t\t: avx2 amx_bf16\n\n"
    info.write_text(core.format(0) + core.format(1).replace("A CPU", "Another"))
    assert machine.cpu_model() == "A CPU: fast"
    assert machine.cpu_flags() == {"avx2", "amx_bf16"}


@pytest.mark.skipif(sys.platform == "win32", reason="asks the Windows API")
def test_peak_memory_is_none_without_the_resource_module(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = machine.peak_memory_mb()
    assert peak is not None
    assert 20 < peak < 1e5  # megabytes of a process that has imported torch
    monkeypatch.setitem(sys.modules, "resource", None)
    assert machine.peak_memory_mb() is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_cache_folder_follows_the_system_and_is_the_default_data_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ITAML_DATA", raising=False)
    assert machine.cache_folder() == tmp_path / "itaml" == data_root()
