"""What there is to know of a model: its tasks, and everything else as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from itaml.library.model import Model


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
    facts, learner, held = model.facts, model.learner, model.held
    counts = {name: sum(entry.images.get(name, 0) for entry in facts.learns) for name in facts.classes}
    memory = learner.memory if learner else None
    kept = {facts.classes[label]: memory.count(label) for label in memory.classes} if memory is not None else {}
    back = {facts.classes[label]: len(pixels) for label, pixels in held.items()}
    return tuple(
        TaskInfo(
            index,
            task.classes,
            task.learned,
            images=sum(counts[name] for name in task.classes),
            exemplars=sum(kept.get(name, 0) for name in task.classes),
            validation_images=sum(back.get(name, 0) for name in task.classes),
        )
        for index, task in enumerate(facts.tasks)
    )


def describe(model: Model) -> dict[str, Any]:
    """Return what a model is, apart from where it is kept."""
    facts, learner = model.facts, model.learner
    return {
        "written_by": facts.written_by,
        "shape": facts.shape,
        "pixels": None if facts.pixels is None else facts.pixels.model_dump(),
        "backbone": facts.settings.get("backbone"),
        "parameters": sum(p.numel() for p in learner.model.parameters()) if learner else 0,
        "memory": facts.options.memory,
        "exemplars": len(learner.memory) if learner else 0,
        "validation_images": sum(map(len, model.held.values())),
        "classes": list(facts.classes),
        "tasks": [vars(task) for task in learned_tasks(model)],
        "learns": [entry.model_dump(mode="json") for entry in facts.learns],
        "settings": facts.settings,
    }
