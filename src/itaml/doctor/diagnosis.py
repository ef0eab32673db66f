"""`examine`: what this machine has, which number format and device are used and why, and what is wrong."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from itaml._version import __version__
from itaml.data.fetch import DataStatus, status
from itaml.data.root import data_root
from itaml.doctor.extras import Extra, extras, missing_dependencies
from itaml.doctor.problems import Problem, find_problems
from itaml.hardware.machine import cache_folder, cores, cpu_model


@dataclass(frozen=True)
class Computing:
    """What torch computes with: device, number format, threads."""

    torch: str
    cuda: str | None  # version that torch was built with
    device: str
    devices: tuple[str, ...]
    features: tuple[str, ...]  # instruction sets of the CPU
    precision: str
    why: str
    probe: dict[str, Any] | None  # outcome, ratio, reason, file; None where no probe is needed
    threads: int
    trains: str  # empty, or why a small network cannot be trained
    hub: Path  # where torch keeps weights that it downloaded


@dataclass(frozen=True)
class Folder:
    """A folder that is written to, which need not exist yet."""

    what: str
    path: Path
    writable: bool
    free_bytes: int

    @classmethod
    def at(cls, what: str, path: Path) -> Folder:
        """Look at a folder, or at the nearest one above it that exists."""
        there = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path(path.anchor or "."))
        return cls(what, path, os.access(there, os.W_OK), shutil.disk_usage(there).free)


@dataclass(frozen=True)
class Diagnosis:
    """All that `itaml doctor` shows."""

    computing: Computing | None  # None if torch cannot be imported
    torch_error: str
    cpu: str
    cores: int
    extras: tuple[Extra, ...]
    missing: tuple[str, ...]  # dependencies that nothing works without
    root: Path
    data: tuple[DataStatus, ...]
    folders: tuple[Folder, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def can_train(self) -> bool:
        """Whether a model can be trained here."""
        return not any(problem.fatal for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        used = self.computing
        probe = used.probe if used else None
        return {
            "itaml": __version__,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
            "torch": used.torch if used else None,
            "device": used.device if used else None,
            "devices": list(used.devices) if used else [],
            "cpu": {"model": self.cpu, "cores": self.cores, "features": list(used.features) if used else []},
            "precision": {"used": used.precision, "why": used.why, "probe": probe} if used else None,
            "threads": used.threads if used else None,
            "extras": [{**asdict(one), "installed": one.installed} for one in self.extras],
            "data": {
                "root": str(self.root),
                "sets": [{"name": one.name, "present": one.present, "fetchable": one.fetchable} for one in self.data],
            },
            "folders": [{**asdict(one), "path": str(one.path)} for one in self.folders],
            "problems": [asdict(problem) for problem in self.problems],
            "can_train": self.can_train,
        }


def examine() -> Diagnosis:
    """Examine this machine; a small network is trained in a child process, which takes a few seconds."""
    computing, error = None, ""
    try:
        computing = _computing()
    except (ImportError, OSError) as reason:  # OSError: a library that torch loads is missing
        error = str(reason)
    places = {"current folder": Path.cwd(), "cache folder": cache_folder(), "data root": data_root()}
    if computing:
        places["torch hub folder"] = computing.hub
    found = Diagnosis(
        computing=computing,
        torch_error=error,
        cpu=cpu_model(),
        cores=cores(),
        extras=extras(),
        missing=missing_dependencies(),
        root=data_root(),
        data=status(),
        folders=tuple(Folder.at(what, path) for what, path in places.items()),
    )
    return Diagnosis(**{**vars(found), "problems": find_problems(found)})


def _computing() -> Computing:
    import torch  # noqa: PLC0415 (the report says what is wrong with it)

    from itaml.config import Compute  # noqa: PLC0415
    from itaml.hardware.probe import bf16_probe, cache_file, run_trial  # noqa: PLC0415
    from itaml.learners import compute  # noqa: PLC0415

    device = compute.pick_device(Compute())
    chosen = compute.choose_format(Compute(), device, convolutions=True)
    probed = compute.needs_probe(device)
    found = {**asdict(bf16_probe()), "file": str(cache_file())} if probed else None
    survived = found is not None and found["outcome"] != "crashed"  # fp32 was trained in the same trial
    return Computing(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        device=device.type,
        devices=compute.devices(),
        features=tuple(sorted(compute.cpu_features())),
        precision="bf16" if chosen.bf16 else "fp32",
        why=chosen.why,
        probe=found,
        threads=torch.get_num_threads(),
        trains="" if survived else run_trial(["fp32"])[1],
        hub=Path(torch.hub.get_dir()),
    )
