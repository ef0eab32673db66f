"""A run's folder: the names of its files, whether a run may use it, and deleting a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from itaml.errors import CheckpointError, DataError, RunExistsError
from itaml.experiment.result import NAME, Result
from itaml.experiment.run_config import RunConfig, completed, differences
from itaml.safe_files import leftover, read_json

CONFIG, CHECKPOINT, RESULT, EVENTS = "config.json", "checkpoint.safetensors", NAME, "events.jsonl"
KIND = "run checkpoint"


def inspect_folder(config: RunConfig, folder: Path | str, *, resume: bool, force: bool) -> bool:
    """Check that a run may use a folder, without changing it; return whether it holds a finished run that is resumed.

    Raises:
        RunExistsError: see `run_experiment`.
        CheckpointError: see `run_experiment`.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise RunExistsError(f"{folder} is a file, not a run's folder; choose another with --out")
    occupied = not _is_empty(folder)
    if occupied and not (folder / CONFIG).is_file():
        raise RunExistsError(f"{folder} holds something that is not a run; choose another folder with --out")
    if not occupied or force:
        return False
    if not resume:
        state = "a finished run" if (folder / RESULT).is_file() else "an unfinished run"
        raise RunExistsError(f"{folder} holds {state}; --resume goes on with it, --force deletes it and starts again")
    changed = _changed_settings(config, folder)
    if changed:
        raise CheckpointError(
            f"{folder} was started with other settings ({', '.join(changed)}); repeat the original command, or --force"
        )
    if not (folder / RESULT).is_file():
        return False
    read_json(folder / RESULT)  # refuses a damaged file; what it holds does not matter here
    return True


def load_finished(folder: Path) -> Result:
    """Return the result of a finished run.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return Result.load(folder)
    except DataError as error:
        raise CheckpointError(f"{error}; --force deletes it and starts again") from error


def _is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing but temporary files, which a kill while a run began may leave."""
    return not folder.exists() or all(leftover(path.name) for path in folder.iterdir())


def delete_run(folder: Path) -> None:
    """Delete a run; its configuration goes last, so that a kill in between leaves something that is known as a run."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == CONFIG):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _changed_settings(config: RunConfig, folder: Path) -> Sequence[str]:
    try:
        return differences(completed(read_json(folder / CONFIG)), config.model_dump(mode="json"))
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{folder / CONFIG} is not what a run writes; --force deletes the run") from error
