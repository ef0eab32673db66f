"""Train runs in folders that are kept: a finished one is not repeated, and an interrupted one is resumed.

The same script can run in several processes: a run that another process is training is passed over.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from itaml.errors import TrainingError
from itaml.experiment.result import NAME
from itaml.experiment.run_config import RunConfig
from itaml.experiment.runner import run_experiment

_FAILED = "failed.txt"


def train(config: RunConfig, folder: Path, data_root: Path) -> None:
    """Train one run unless its result is there; a loss that is not a number is an outcome, written beside it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.parent / f".{folder.name}.lock", timeout=0):
            if not (folder / NAME).exists() and failure(folder) is None:
                _train(config, folder, data_root)
    except Timeout:
        return  # another process is at it


def _train(config: RunConfig, folder: Path, data_root: Path) -> None:
    try:
        run_experiment(config, folder, data_root=data_root, resume=(folder / "config.json").exists())
    except TrainingError as error:
        (folder / _FAILED).write_text(str(error), encoding="utf-8")


def failure(folder: Path) -> str | None:
    """Return why a run failed, or None if it did not."""
    file = folder / _FAILED
    return file.read_text(encoding="utf-8") if file.exists() else None
