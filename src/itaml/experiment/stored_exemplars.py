"""The exemplars that a finished run ended with, read from its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from itaml.errors import CheckpointError

if TYPE_CHECKING:
    import torch


def read_exemplars(run: Path, tasks: list[list[str]]) -> dict[str, torch.Tensor]:
    """Return the exemplars of every class by class name, empty if the method keeps none.

    Args:
        run: folder of a finished run.
        tasks: names of the classes of each task, in the order in which they were learned.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    from itaml.experiment.run_folder import CHECKPOINT, KIND  # noqa: PLC0415 (torch; tables of results do not need it)
    from itaml.storage import load_state  # noqa: PLC0415

    if not (run / CHECKPOINT).is_file():
        raise CheckpointError("there is no checkpoint beside the result")
    learner = load_state(run / CHECKPOINT, kind=KIND).get("learner")
    names = _names(learner, tasks)
    return {names.get(key, f"class {key}"): images for key, images in _images(learner).items()}


def _images(learner: Any) -> dict[str, torch.Tensor]:
    """Return the images by class number, whatever kind of learner it was."""
    memory = learner.get("memory") if isinstance(learner, dict) else None
    if isinstance(memory, dict) and memory.get("unit") == "bytes":
        return _decoded(memory)
    found = memory.get("images") if isinstance(memory, dict) else None
    if not isinstance(found, dict):
        return {}
    return {key: images for key, images in found.items() if getattr(images, "ndim", 0) == 4 and len(images)}


def _decoded(memory: dict[str, Any]) -> dict[str, torch.Tensor]:
    from itaml.memory.webp_files import decoded, saved_files  # noqa: PLC0415

    try:
        channels, height, width = map(int, memory["shape"])
        files = saved_files(memory)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"its memory is damaged: {error!r}") from error
    return {key: decoded(one, (channels, height, width)) for key, one in files.items() if one}


def _names(learner: Any, tasks: list[list[str]]) -> dict[str, str]:
    """Return class names by class number: the numbers of a task and its names are in the same order."""
    table = learner.get("table") if isinstance(learner, dict) else None
    pairs = zip(table or [], tasks, strict=False)
    return {str(number): name for row, names in pairs for number, name in zip(row, names, strict=False)}
