"""What there is to know of a model: its tasks, and everything else as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from itaml.library.learning import Model


@dataclass(frozen=True)
class TaskInfo:
    """A task that a model has learned."""

    index: int
    classes: tuple[str, ...]
    learned: str  # date and time
    pictures: int  # learned from, in all learns
    exemplars: int  # kept for training
    held_back: int  # kept for measuring


def learned_tasks(model: Model) -> tuple[TaskInfo, ...]:
    """Return what was learned, task by task."""
    facts, learner, held = model.facts, model.learner, model.held
    counts = {name: sum(entry.pictures.get(name, 0) for entry in facts.learns) for name in facts.classes}
    memory = learner.memory if learner else None
    kept = {facts.classes[label]: memory.count(label) for label in memory.classes} if memory is not None else {}
    back = {facts.classes[label]: len(pixels) for label, pixels in held.items()}
    return tuple(
        TaskInfo(
            index,
            task.classes,
            task.learned,
            pictures=sum(counts[name] for name in task.classes),
            exemplars=sum(kept.get(name, 0) for name in task.classes),
            held_back=sum(back.get(name, 0) for name in task.classes),
        )
        for index, task in enumerate(facts.tasks)
    )


def describe(model: Model) -> dict[str, Any]:
    """Return what a model is, apart from where it is kept."""
    facts, learner = model.facts, model.learner
    return {
        "written_by": facts.written_by,
        "shape": facts.shape,
        "backbone": facts.settings.get("backbone"),
        "parameters": sum(p.numel() for p in learner.model.parameters()) if learner else 0,
        "memory": facts.options.memory,
        "exemplars": len(learner.memory) if learner else 0,
        "held_back": sum(map(len, model.held.values())),
        "classes": list(facts.classes),
        "tasks": [vars(task) for task in learned_tasks(model)],
        "learns": [entry.model_dump(mode="json") for entry in facts.learns],
        "settings": facts.settings,
    }
