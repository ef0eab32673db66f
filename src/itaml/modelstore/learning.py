"""One learn, from what was given to the next version's record and state."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch
from torch import Tensor

from itaml.config import Compute
from itaml.events import Callback
from itaml.learners.compute import pick_device
from itaml.memory.buffer import Memory
from itaml.modelstore.class_names import match_names
from itaml.modelstore.defaults import ImageStatistics, are_photos, choose, default_settings
from itaml.modelstore.duplicates import compare, known_images
from itaml.modelstore.history import mean_accuracy, with_learn
from itaml.modelstore.image_reading import ReadImages, read_images
from itaml.modelstore.labelled_inputs import LabelledInputs
from itaml.modelstore.learn_checkpoint import LearnCheckpoint
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import LearnRecord, Manifest, TaskRecord
from itaml.modelstore.training import Arriving, Trained, train
from itaml.text import count


@dataclass(frozen=True)
class LearnReport:
    """What a learn did: its record, sentences about what was left out, and whether there was anything new."""

    record: LearnRecord
    notes: tuple[str, ...]
    changed: bool = True  # False: every image was known already, and the model is as it was
    unreadable: tuple[tuple[str, str], ...] = ()  # files that could not be read and why, a thousand at most


def learn(
    model: Model,
    labelled: LabelledInputs,
    *,
    epochs: int | None,
    compute: Compute,
    callback: Callback,
    checkpoint: LearnCheckpoint | None = None,
) -> tuple[Model, LearnReport]:
    """Learn what was gathered; the model given is used up. `epochs` of None is what the model was made with.

    Raises:
        DataError: the images cannot be learned from.
        SettingsError: the memory is too small for so many classes.
        TrainingError: training failed.
    """
    start = time.monotonic()
    matched = match_names(labelled.names, model.manifest.classes)
    manifest = with_defaults(model.manifest, labelled, compute)
    read = read_images(labelled, manifest, callback=callback)
    arriving = _arriving(model, labelled, read, matched)
    notes = (*read.notes, *_known_notes(arriving))
    if not len(arriving.images):
        nothing = _record(manifest, arriving, read, None, start)
        return model, LearnReport(nothing, notes, changed=False, unreadable=read.unreadable)
    if model.manifest.shape is None:
        manifest = with_defaults(model.manifest, labelled, compute, grey=read.grey)
    trained = train(
        replace(model, manifest=manifest),
        arriving,
        epochs=epochs,
        compute=compute,
        callback=callback,
        checkpoint=checkpoint,
    )
    record = _record(manifest, arriving, read, trained, start)
    tasks = (*manifest.tasks, TaskRecord(classes=record.new, learned=record.date)) if record.new else manifest.tasks
    changes = {"classes": arriving.classes, "tasks": tasks, "learns": with_learn(manifest.learns, record)}
    done = replace(trained.model, manifest=trained.model.manifest.model_copy(update=changes))
    notes = (*notes, *_empty_notes(done, arriving))
    return done, LearnReport(record, notes, unreadable=read.unreadable)


def with_defaults(manifest: Manifest, labelled: LabelledInputs, compute: Compute, *, grey: bool = False) -> Manifest:
    """Return the facts with shape, pixel format and settings, chosen now if this is the first learn.

    Args:
        manifest: of the model.
        labelled: what it is to learn.
        compute: where it is to learn.
        grey: whether the images have no colours; known once they have been read.

    Raises:
        DataError: none of the images can be read.
        UsageError: an option does not exist or is not possible.
    """
    if manifest.shape is not None:
        return manifest
    options, inputs = manifest.options, labelled.inputs
    Memory(budget=options.memory).check_room(len(labelled.names))
    pixels = inputs.new_format()
    side = inputs.median_side
    photos = are_photos(side, grey=inputs.grey, pixels=pixels)
    statistics = ImageStatistics(len(labelled), side, grey, photos)
    choice = choose(options, statistics, gpu=pick_device(compute).type != "cpu")
    shape = inputs.new_shape(options.image_size, choice.image_size)
    settings = default_settings(options, choice, statistics, shape)
    chosen = {"method": choice.method, "settings": settings.model_dump(mode="json"), "shape": shape, "pixels": pixels}
    chosen |= {"interpolation": choice.fitting.interpolation, "crop": choice.fitting.crop}
    return manifest.model_copy(update=chosen)


def _arriving(model: Model, labelled: LabelledInputs, read: ReadImages, matched: dict[str, str]) -> Arriving:
    old = model.manifest.classes
    names = [matched[name] for name in labelled.names]
    present = frozenset(names[label] for label in torch.unique(read.images.labels).tolist())
    classes = (*old, *(name for name in dict.fromkeys(names) if name in present and name not in old))
    ids = torch.tensor([classes.index(name) if name in present else -1 for name in names])
    labels = ids[read.images.labels]
    known = compare(read.digests, labels.tolist(), known_images(model))
    images = replace(read.images, labels=labels).select(known.new)
    return Arriving(classes, present, images, [read.digests[row] for row in known.new.tolist()], known)


def _record(
    manifest: Manifest, arriving: Arriving, read: ReadImages, trained: Trained | None, start: float
) -> LearnRecord:
    return LearnRecord(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        new=arriving.classes[len(manifest.classes) :],
        known=tuple(name for name in manifest.classes if name in arriving.present),
        images={} if trained is None else _counts(trained.labels, arriving.classes),
        skipped=read.skipped,
        duplicates=arriving.known.duplicates,
        moved=arriving.known.moved,
        epochs=0 if trained is None else trained.model.manifest.settings.get("epochs", 0),
        seconds=round(time.monotonic() - start, 2),
        validation_images=0 if trained is None else trained.validation_images,
        validation=None if trained is None else trained.validation,
        tasks=() if trained is None else trained.scores,
        accuracy=None if trained is None else mean_accuracy(trained.scores),
    )


def _known_notes(arriving: Arriving) -> list[str]:
    known, notes = arriving.known, []
    if known.duplicates:
        notes.append(f"{count(known.duplicates, 'image')} known already, not stored again")
    if known.moved:
        notes.append(f"{count(known.moved, 'image')} moved from another class: the newer label counts")
    if known.conflicts:
        notes.append(
            f"{count(known.conflicts, 'image')} given under more than one class at once, learned as all of them"
        )
    return notes


def _empty_notes(model: Model, arriving: Arriving) -> list[str]:
    if not arriving.known.moved:
        return []
    kept = model.exemplar_counts
    empty = [name for label, name in enumerate(arriving.classes) if not kept.get(label)]
    return [f"class {name!r} has no images left, because all were moved" for name in empty]


def _counts(labels: Tensor, classes: tuple[str, ...]) -> dict[str, int]:
    found = torch.bincount(labels, minlength=len(classes)).tolist()
    return {name: number for name, number in zip(classes, found, strict=True) if number}
