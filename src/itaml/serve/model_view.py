"""A loaded version in the form of the API: classes, tasks, history, versions, exemplars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from PIL import Image
from torch import Tensor

from itaml.data.thumbnails import to_image
from itaml.errors import ItamlError
from itaml.modelstore.checksummed_json import Pointer
from itaml.modelstore.duplicates import exemplars_of
from itaml.modelstore.exemplar_files import read_pixels
from itaml.modelstore.history import accuracy_of
from itaml.modelstore.manifest import LearnRecord, Manifest
from itaml.modelstore.model_folder import ModelFolder
from itaml.serve.measurement import ClassCounts
from itaml.serve.served_model import ServedModel

MAX_SIDE, QUALITY = 512, 80


def model_values(served: ServedModel, measured: ClassCounts) -> dict[str, Any]:
    """Return what a model is and knows."""
    manifest = served.model.manifest
    shape = manifest.shape
    return {
        "name": served.folder.path.resolve().name,
        "version": served.version,
        "classes": class_entries(served, measured),
        "tasks": [
            {"number": number + 1, "classes": list(task.classes), "learned": task.learned}
            for number, task in enumerate(manifest.tasks)
        ],
        "history": history(manifest, served.version),
        "versions": versions(served.folder, served.version),
        "backbone": manifest.settings.get("backbone"),
        "method": manifest.method if shape is not None else manifest.options.method,
        "image_size": None if shape is None else min(shape[1:]),
        "unknown": knows_unknown(served),
        "empty": served.empty,
    }


def class_entries(served: ServedModel, measured: ClassCounts) -> list[dict[str, Any]]:
    """Return the classes in order of arrival."""
    manifest, kept = served.model.manifest, served.model.exemplar_counts
    task_of = {name: number + 1 for number, task in enumerate(manifest.tasks) for name in task.classes}
    return [
        {
            "name": name,
            "task": task_of[name],
            "images": sum(record.images.get(name, 0) for record in manifest.learns),
            "exemplars": kept.get(label, 0),
            "accuracy": measured.by_class.get(name),
        }
        for label, name in enumerate(manifest.classes)
    ]


def history(manifest: Manifest, version: int) -> list[dict[str, Any]]:
    """Return learns and corrections, the oldest first; each has the number of the version that it made."""
    changes: list[tuple[str, dict[str, Any]]] = [
        (
            record.date,
            {"action": "learn", "classes": [*record.new, *record.known], "accuracy": _accuracy(record)},
        )
        for record in manifest.learns
    ]
    changes += [
        (edit.date, {"action": edit.action, "classes": list(edit.classes), "accuracy": None}) for edit in manifest.edits
    ]
    changes.sort(key=lambda change: change[0])
    first = version - len(changes) + 1
    return [
        {"version": max(first + number, 0), "date": date, **change} for number, (date, change) in enumerate(changes)
    ]


def _accuracy(record: LearnRecord) -> float | None:
    """Return the accuracy after a learn on the images of all tasks."""
    known = accuracy_of(record)
    return record.validation if known is None else known


def versions(folder: ModelFolder, current: int) -> list[dict[str, Any]]:
    """Return the versions that are kept, the newest first."""
    kept = [number for number in reversed(folder.numbers()) if number <= current]
    return [{"version": number, "date": _date(folder, number), "current": number == current} for number in kept]


def _date(folder: ModelFolder, number: int) -> str | None:
    try:
        manifest = folder.read_facts(Pointer(number, None))[0]
    except ItamlError:  # removed meanwhile, or damaged
        return None
    dates = [*(record.date for record in manifest.learns), *(edit.date for edit in manifest.edits)]
    return max(dates, default=None)


def knows_unknown(served: ServedModel) -> bool:
    """Say whether the model can say that an image is of no class."""
    if served.empty:
        return False
    own: float | None = getattr(served.model.core, "unknown_threshold", None)
    if own is not None:
        return own != float("inf")
    return served.model.confidence.detector.threshold != float("-inf")


def class_values(served: ServedModel, name: str, measured: ClassCounts) -> dict[str, Any]:
    """Return a class with the addresses of its exemplars."""
    entry = next(entry for entry in class_entries(served, measured) if entry["name"] == name)
    place = f"/v1/classes/{quote(name, safe='')}/exemplars"
    number = entry.pop("exemplars")
    return {**entry, "exemplars": [{"id": str(one), "url": f"{place}/{one}"} for one in range(number)]}


def exemplar(served: ServedModel, name: str, number: int) -> Tensor | None:
    """Return an exemplar of a class (c, h, w), None if there is no such one.

    Raises:
        CheckpointError: its file is missing or damaged.
    """
    model = served.model
    label = model.manifest.classes.index(name)
    if model.memory is not None:
        kept: Sequence[Tensor] | Tensor = exemplars_of(model.memory).get(label, ())
        return kept[number] if 0 <= number < len(kept) else None
    own = [image for image in model.manifest.stored_images if (image.label, image.kind) == (label, "exemplar")]
    if not 0 <= number < len(own):
        return None
    return read_pixels(served.folder, [own[number]], served.shape, model.files)[0]


def thumbnail_bytes(pixels: Tensor, size: int) -> bytes:
    """Return an image as WebP whose longer side is `size` at most."""
    image = to_image(pixels)
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY, method=0)
    return buffer.getvalue()
