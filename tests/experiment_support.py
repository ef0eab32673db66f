"""Short runs and what is compared of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from itaml.config import Compute
from itaml.experiment.result import Result
from itaml.experiment.run_config import RunConfig, resolve
from itaml.experiment.run_folder import CHECKPOINT, KIND
from itaml.storage import load_state

VOLATILE = {"train_seconds", "peak_memory_mb", "environment", "spent", "checksum"}


def short(benchmark: str = "small", *, seed: int = 0, compute: Compute | None = None, **overrides: Any) -> RunConfig:
    """Return a configuration of two epochs per task."""
    chosen = {"epochs": 2, "batch_size": 8} | {key.replace("__", "."): value for key, value in overrides.items()}
    compute = compute or Compute(device="cpu", precision="fp32")
    return resolve(benchmark, seed=seed, overrides=chosen, compute=compute)


def numbers(value: Any) -> Any:
    """Return a result without what differs between any two runs: times, memory, the machine."""
    if isinstance(value, Result):
        value = value.to_dict()
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items() if key not in VOLATILE}
    return [numbers(item) for item in value] if isinstance(value, list) else value


def checkpoint(folder: Path) -> Any:
    """Return a run's last checkpoint without times."""
    return numbers(load_state(folder / CHECKPOINT, kind=KIND))
