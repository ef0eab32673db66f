"""One learn, from what was given to the next version's record and state."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch
from torch import Tensor

from itaml.config import Compute, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.events import Callback
from itaml.learners.compute import pick_device
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.memory.buffer import Memory
from itaml.modelstore import validation as validation_split
from itaml.modelstore.accuracy import accuracy, task_accuracies, task_scores
from itaml.modelstore.class_names import match_names
from itaml.modelstore.defaults import ImageStatistics, default_epochs, default_image_size, default_settings
from itaml.modelstore.duplicates import Known, compare, exemplars_of, remove_exemplars, stored_classes, without
from itaml.modelstore.image_reading import ReadImages, read_images
from itaml.modelstore.labelled_inputs import LabelledInputs
from itaml.modelstore.loaded_model import Model, make_learner
from itaml.modelstore.manifest import LearnRecord, Manifest, TaskRecord, TaskScore
from itaml.modelstore.validation import ValidationImages
from itaml.text import count


@dataclass(frozen=True)
class LearnReport:
    """What a learn did: its record, sentences about what was left out, and whether there was anything new."""

    record: LearnRecord
    notes: tuple[str, ...]
    changed: bool = True  # False: every image was known already, and the model is as it was


@dataclass(frozen=True, eq=False)
class Arriving:
    """The images of a learn under the model's class ids, without duplicates."""

    classes: tuple[str, ...]  # all classes after the learn, by class id
    present: frozenset[str]  # classes of which an image could be read
    images: ImageSet
    keys: Tensor  # (n,) by which the validation split is made
    known: Known


@dataclass(frozen=True, eq=False)
class Trained:
    """A model after training, and what was measured."""

    model: Model
    train: ImageSet
    validation: ImageSet
    scores: tuple[TaskScore, ...]


def learn(
    model: Model, labelled: LabelledInputs, *, epochs: int | None, compute: Compute, callback: Callback
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
    assert manifest.shape is not None
    assert manifest.pixels is not None
    read = read_images(labelled, manifest.shape, manifest.pixels, callback=callback)
    arriving = _arriving(model, labelled, read, matched)
    notes = (*read.notes, *_known_notes(arriving))
    if not len(arriving.images):
        return model, LearnReport(_record(manifest, arriving, read, None, start), notes, changed=False)
    if model.manifest.shape is None:
        manifest = with_defaults(model.manifest, labelled, compute, grey=read.grey)
    trained = _train(replace(model, manifest=manifest), arriving, epochs=epochs, compute=compute, callback=callback)
    record = _record(manifest, arriving, read, trained, start)
    tasks = (*manifest.tasks, TaskRecord(classes=record.new, learned=record.date)) if record.new else manifest.tasks
    changes = {"classes": arriving.classes, "tasks": tasks, "learns": (*manifest.learns, record)}
    done = replace(trained.model, manifest=trained.model.manifest.model_copy(update=changes))
    return done, LearnReport(record, (*notes, *_empty_notes(done, arriving)))


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
    Memory(budget=manifest.options.memory).check_room(len(labelled.names))
    statistics = ImageStatistics(len(labelled), labelled.inputs.median_side, grey)
    shape = labelled.inputs.new_shape(manifest.options.image_size, default_image_size(manifest.options, statistics))
    settings = default_settings(manifest.options, statistics, shape, gpu=pick_device(compute).type != "cpu")
    chosen = {"shape": shape, "pixels": labelled.inputs.new_format(), "settings": settings.model_dump(mode="json")}
    return manifest.model_copy(update=chosen)


def _arriving(model: Model, labelled: LabelledInputs, read: ReadImages, matched: dict[str, str]) -> Arriving:
    old = model.manifest.classes
    names = [matched[name] for name in labelled.names]
    present = frozenset(names[label] for label in torch.unique(read.images.labels).tolist())
    classes = (*old, *(name for name in dict.fromkeys(names) if name in present and name not in old))
    ids = torch.tensor([classes.index(name) if name in present else -1 for name in names])
    labels = ids[read.images.labels]
    memory = {} if model.learner is None else exemplars_of(model.learner.memory)
    known = compare(read.digests, labels.tolist(), stored_classes(memory, model.validation_images))
    keys = torch.tensor([int.from_bytes(digest[:7], "big") for digest in read.digests])
    images = replace(read.images, labels=labels).select(known.new)
    return Arriving(classes, present, images, keys[known.new], known)


def _train(model: Model, arriving: Arriving, *, epochs: int | None, compute: Compute, callback: Callback) -> Trained:
    manifest, classes, stale = model.manifest, arriving.classes, arriving.known.stale
    train, validation = validation_split.split(arriving.images, arriving.keys)
    chosen = _epochs(model, train) if epochs is None else epochs
    settings = build(ITAMLSettings, {**manifest.settings, "epochs": chosen})
    learner = model.learner or make_learner(manifest, settings, compute)
    learner.configure(settings)
    share = validation_split.validation_share(manifest.options.memory, len(classes))
    learner.memory.budget = manifest.options.memory - share * len(classes)
    remove_exemplars(learner.memory, stale)
    validation_images: ValidationImages = without(model.validation_images, stale)
    before = task_accuracies(learner, validation_images)
    learner.callback = callback
    learner.learn(Task(len(learner.task_map), tuple(range(len(manifest.classes), len(classes))), train))
    after = task_accuracies(learner, validation_images)
    kept = validation_split.refresh(
        validation_images, validation, share=share, seed=manifest.options.seed, learn=len(manifest.learns)
    )
    manifest = manifest.model_copy(update={"settings": settings.model_dump(mode="json")})
    scores = task_scores(learner, validation_images, kept, before, after)
    return Trained(Model(manifest, learner, kept), train, validation, scores)


def _epochs(model: Model, train: ImageSet) -> int:
    options = model.manifest.options
    if "epochs" in options.settings:
        return int(options.settings["epochs"])
    return default_epochs(options, len(train) + (0 if model.learner is None else len(model.learner.memory)))


def _record(
    manifest: Manifest, arriving: Arriving, read: ReadImages, trained: Trained | None, start: float
) -> LearnRecord:
    return LearnRecord(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        new=arriving.classes[len(manifest.classes) :],
        known=tuple(name for name in manifest.classes if name in arriving.present),
        images={} if trained is None else _counts(trained.train, arriving.classes),
        skipped=read.skipped,
        duplicates=arriving.known.duplicates,
        moved=arriving.known.moved,
        epochs=0 if trained is None else trained.model.manifest.settings["epochs"],
        seconds=round(time.monotonic() - start, 2),
        validation_images=0 if trained is None else len(trained.validation),
        validation=None if trained is None else accuracy(trained.model.ready, trained.validation),
        tasks=() if trained is None else trained.scores,
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
    memory = exemplars_of(model.ready.memory)
    empty = [name for label, name in enumerate(arriving.classes) if label not in memory]
    return [f"class {name!r} has no images left, because all were moved" for name in empty]


def _counts(images: ImageSet, classes: tuple[str, ...]) -> dict[str, int]:
    found = torch.bincount(images.labels, minlength=len(classes)).tolist()
    return {name: number for name, number in zip(classes, found, strict=True) if number}
