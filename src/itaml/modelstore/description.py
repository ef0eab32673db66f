"""What there is to know of a model: its tasks, and everything else as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from itaml.modelstore.loaded_model import Model


@dataclass(frozen=True)
class TaskInfo:
    """A task that a model has learned."""

    index: int  # counting from 0
    classes: tuple[str, ...]
    learned: str  # date and time
    images: int  # learned from, in all learns
    exemplars: int  # kept for training
    validation_images: int  # kept for measuring


def learned_tasks(model: Model) -> tuple[TaskInfo, ...]:
    """Return what was learned, task by task."""
    manifest, learner, validation_images = model.manifest, model.learner, model.validation_images
    counts = {name: sum(entry.images.get(name, 0) for entry in manifest.learns) for name in manifest.classes}
    memory = learner.memory if learner else None
    kept = {manifest.classes[label]: memory.count(label) for label in memory.classes} if memory is not None else {}
    back = {manifest.classes[label]: len(pixels) for label, pixels in validation_images.items()}
    return tuple(
        TaskInfo(
            index,
            task.classes,
            task.learned,
            images=sum(counts[name] for name in task.classes),
            exemplars=sum(kept.get(name, 0) for name in task.classes),
            validation_images=sum(back.get(name, 0) for name in task.classes),
        )
        for index, task in enumerate(manifest.tasks)
    )


def describe(model: Model) -> dict[str, Any]:
    """Return what a model is, apart from where it is kept."""
    manifest, learner = model.manifest, model.learner
    return {
        "written_by": manifest.written_by,
        "shape": manifest.shape,
        "pixels": None if manifest.pixels is None else manifest.pixels.model_dump(),
        "backbone": manifest.settings.get("backbone"),
        "parameters": sum(p.numel() for p in learner.model.parameters()) if learner else 0,
        "memory": manifest.options.memory,
        "exemplars": len(learner.memory) if learner else 0,
        "validation_images": sum(map(len, model.validation_images.values())),
        "classes": list(manifest.classes),
        "tasks": [vars(task) for task in learned_tasks(model)],
        "learns": [entry.model_dump(mode="json") for entry in manifest.learns],
        "edits": [entry.model_dump(mode="json") for entry in manifest.edits],
        "settings": manifest.settings,
    }
