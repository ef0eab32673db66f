"""What there is to know of a model: its tasks, and everything else as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from itaml.learners.frozen import FrozenLearner
from itaml.memory.buffer import Memory
from itaml.modelstore.history import accuracy_of
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import PixelFormat
from itaml.text import finite_or_none


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
    manifest, validation_images = model.manifest, model.validation_images
    counts = {name: sum(entry.images.get(name, 0) for entry in manifest.learns) for name in manifest.classes}
    kept = {manifest.classes[label]: number for label, number in model.exemplar_counts.items()}
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
    manifest = model.manifest
    return {
        "written_by": manifest.written_by,
        "shape": manifest.shape,
        "pixels": None if manifest.pixels is None else _pixels(manifest.pixels),
        "method": manifest.method if manifest.shape is not None else manifest.options.method,
        "backbone": manifest.settings.get("backbone"),
        "weights_sha256": _weights_of(model),
        "parameters": _parameters(model),
        "memory": manifest.options.memory,
        "exemplars": sum(model.exemplar_counts.values()),
        "exemplar_bytes": _exemplar_bytes(model),
        "validation_images": sum(map(len, model.validation_images.values())),
        "unknown_threshold": finite_or_none(model.unknown_threshold),
        "classes": list(manifest.classes),
        "tasks": [vars(task) for task in learned_tasks(model)],
        "learns": [entry.model_dump(mode="json") | {"accuracy": accuracy_of(entry)} for entry in manifest.learns],
        "edits": [entry.model_dump(mode="json") for entry in manifest.edits],
        "settings": manifest.settings,
    }


def _weights_of(model: Model) -> str | None:
    """Return the hash of the weights that a model was given, None if it has only weights of its own."""
    frozen = model.learner if isinstance(model.learner, FrozenLearner) else None
    return None if frozen is None else frozen.extractor.extraction.weights_sha256


def _parameters(model: Model) -> int:
    """Return the number of weights of the network, of the backbone too if it is frozen."""
    networks = [] if model.learner is None else [getattr(model.core, "model", None)]
    if isinstance(model.learner, FrozenLearner):
        networks.append(model.learner.extractor.backbone.network)
    return sum(p.numel() for network in networks if isinstance(network, nn.Module) for p in network.parameters())


def _exemplar_bytes(model: Model) -> int:
    """Return the bytes that exemplars and validation images take: files, pixels and features."""
    files = sum({image.sha256: image.size for image in model.manifest.stored_images}.values())
    tensors = [] if model.learner is None else _memory_images(model)
    width = 2 if isinstance(model.learner, FrozenLearner) else None  # features are saved in half precision
    kept = [*tensors, *model.validation_images.values()]
    return files + sum(tensor.numel() * (width or tensor.element_size()) for tensor in kept)


def _pixels(pixels: PixelFormat) -> dict[str, Any]:
    return pixels.model_dump(exclude={"span"} if pixels.span is None else None)


def _memory_images(model: Model) -> list[Tensor]:
    memory = getattr(model.core, "memory", None)
    kept = memory.exemplars() if isinstance(memory, Memory) else None
    return [] if kept is None else [kept.load()[0]]
