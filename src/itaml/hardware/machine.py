"""Facts about the machine, on every operating system; nothing here needs torch."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CPUINFO, MEMINFO, CGROUP = Path("/proc/cpuinfo"), Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """Return the name of the CPU, as its maker calls it where the system knows that."""
    if sys.platform == "darwin":
        name = _sysctl("machdep.cpu.brand_string")
    else:
        name = _cpuinfo().get("model name", "")
    return name or platform.processor() or platform.machine() or "unknown CPU"


def cpu_flags() -> frozenset[str]:
    """Return the instruction sets that Linux reports (`avx512_bf16`, `amx_bf16`, ...); empty on other systems."""
    info = _cpuinfo()
    return frozenset(f"{info.get('flags', '')} {info.get('Features', '')}".split())


def peak_memory_mb() -> float | None:
    """Return the largest resident memory of this process so far, in megabytes; None where it cannot be known."""
    if sys.platform == "win32":
        return _windows_peak_mb()
    try:
        import resource  # noqa: PLC0415 (not on every system)
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def available_memory() -> int | None:
    """Return the bytes of memory that a process can take without swapping; None where Linux does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii", errors="replace").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    try:
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no control group, or no limit
        return free
    return max(0, min(free, limit - used))


def cache_folder() -> Path:
    """Return the user's cache folder (`~/.cache/itaml` on Linux); it need not exist."""
    from pooch import os_cache  # noqa: PLC0415 (slow to import, and seldom needed)

    return Path(os_cache("itaml"))


def _cpuinfo() -> Mapping[str, str]:
    """Return what Linux writes about the first core."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _sysctl(name: str) -> str:
    """Return a value of macOS, empty if there is none."""
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _windows_peak_mb() -> float | None:
    if sys.platform != "win32":
        return None
    import ctypes  # noqa: PLC0415
    from ctypes import wintypes  # noqa: PLC0415

    sizes = ("peak_working_set", "working_set", "peak_paged", "paged", "peak_nonpaged", "nonpaged", "pagefile", "peak")

    class Counters(ctypes.Structure):  # PROCESS_MEMORY_COUNTERS of the Windows API
        _fields_ = [("cb", wintypes.DWORD), ("faults", wintypes.DWORD), *((name, ctypes.c_size_t) for name in sizes)]

    counters = Counters(cb=ctypes.sizeof(Counters))
    kernel = ctypes.WinDLL("kernel32")
    kernel.GetCurrentProcess.restype = wintypes.HANDLE
    kernel.K32GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD)
    if not kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb):
        return None
    return float(counters.peak_working_set) / 2**20
