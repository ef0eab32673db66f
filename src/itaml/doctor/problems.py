"""What is wrong with a machine or an installation: one sentence each, and one line of advice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from itaml.data.root import VARIABLE

if TYPE_CHECKING:
    from itaml.doctor.diagnosis import Computing, Diagnosis

LITTLE_SPACE = 10**9  # bytes
NO_SPACE = 50 * 10**6  # bytes: less than a small model and its former version


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, what to do about it, and whether it keeps models from being trained."""

    problem: str
    advice: str
    fatal: bool = False


def find_problems(found: Diagnosis) -> tuple[Problem, ...]:
    """Return what is wrong, the worst first."""
    problems = [*_installation(found), *_folders(found)]
    if found.computing is not None:
        problems += _computing(found.computing, found.cores)
    return tuple(sorted(problems, key=lambda problem: not problem.fatal))


def _installation(found: Diagnosis) -> Iterator[Problem]:
    for name in found.missing:
        if name != "torch" or not found.torch_error:
            yield Problem(f"{name} is not installed", f"pip install {name}", fatal=True)
    if found.torch_error:
        advice = "install torch for this system: https://pytorch.org/get-started"
        yield Problem(f"torch cannot be imported: {found.torch_error}", advice, fatal=True)


def _computing(used: Computing, cores: int) -> Iterator[Problem]:
    if used.trains:
        advice = "install a torch that is built for this CPU: https://pytorch.org/get-started"
        yield Problem(f"a small network cannot be trained in fp32: {used.trains}", advice, fatal=True)
    if used.probe is not None and used.probe["outcome"] == "crashed":
        advice = f"nothing to do, fp32 is used; delete {used.probe['file']} to probe again"
        if "amx_tile" in used.features:
            advice = "nothing to do, fp32 is used; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 lets bf16 run without AMX"
        yield Problem(f"bf16 does not work on this machine: {used.probe['reason']}", advice)
    if used.cuda is not None and "cuda" not in used.devices:
        yield Problem(f"torch is built for CUDA {used.cuda}, and finds no GPU", "check the driver with nvidia-smi")
    if used.threads > cores:
        text = f"torch uses {used.threads} threads, and this process may use {cores} cores"
        yield Problem(text, f"give --threads {cores}, or set OMP_NUM_THREADS={cores}")


def _folders(found: Diagnosis) -> Iterator[Problem]:
    if os.environ.get(VARIABLE) and not found.root.is_dir():
        yield Problem(f"{VARIABLE} names {found.root}, which is not a folder", f"create it, or unset {VARIABLE}")
    for folder in found.folders:
        if not folder.writable:
            advice = (
                "set XDG_CACHE_HOME to a folder of yours" if folder.what == "cache folder" else "use another folder"
            )
            yield Problem(f"the {folder.what} {folder.path} cannot be written", advice)
    here = found.folders[0]
    if here.free_bytes < LITTLE_SPACE:
        text = f"{here.free_bytes / 1e6:.0f} MB are free in {here.path}"
        yield Problem(text, "delete what is not needed, or use another disk", fatal=here.free_bytes < NO_SPACE)
