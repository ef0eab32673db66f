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
from itaml.events import Listener
from itaml.learners.compute import pick_device
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.library import held as held_back
from itaml.library.choose import Look, choose_epochs, choose_settings, choose_size
from itaml.library.duplicates import Known, compare, exemplars_of, remove_exemplars, stored_classes, without
from itaml.library.gather import Gathered
from itaml.library.held import Held
from itaml.library.measure import accuracy, task_accuracies, task_scores
from itaml.library.model import Model, make_learner
from itaml.library.names import match_names
from itaml.library.reading import ReadImages, read_images
from itaml.library.record import Facts, LearnRecord, TaskRecord, TaskScore
from itaml.memory.store import Memory
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
    model: Model, gathered: Gathered, *, epochs: int | None, compute: Compute, listen: Listener
) -> tuple[Model, LearnReport]:
    """Learn what was gathered; the model given is used up. `epochs` of None is what the model was made with.

    Raises:
        DataError: the images cannot be learned from.
        SettingsError: the memory is too small for so many classes.
        TrainingError: training failed.
    """
    start = time.monotonic()
    matched = match_names(gathered.names, model.facts.classes)
    facts = begun(model.facts, gathered, compute)
    assert facts.shape is not None
    assert facts.pixels is not None
    read = read_images(gathered, facts.shape, facts.pixels, listen=listen)
    arriving = _arriving(model, gathered, read, matched)
    notes = (*read.notes, *_known_notes(arriving))
    if not len(arriving.images):
        return model, LearnReport(_record(facts, arriving, read, None, start), notes, changed=False)
    if model.facts.shape is None:
        facts = begun(model.facts, gathered, compute, grey=read.grey)
    trained = _train(replace(model, facts=facts), arriving, epochs=epochs, compute=compute, listen=listen)
    record = _record(facts, arriving, read, trained, start)
    tasks = (*facts.tasks, TaskRecord(classes=record.new, learned=record.date)) if record.new else facts.tasks
    changes = {"classes": arriving.classes, "tasks": tasks, "learns": (*facts.learns, record)}
    done = replace(trained.model, facts=trained.model.facts.model_copy(update=changes))
    return done, LearnReport(record, (*notes, *_empty_notes(done, arriving)))


def begun(facts: Facts, gathered: Gathered, compute: Compute, *, grey: bool = False) -> Facts:
    """Return the facts with shape, pixel format and settings, chosen now if this is the first learn.

    Args:
        facts: of the model.
        gathered: what it is to learn.
        compute: where it is to learn.
        grey: whether the images have no colours; known once they have been read.

    Raises:
        DataError: none of the images can be read.
        UsageError: an option does not exist or is not possible.
    """
    if facts.shape is not None:
        return facts
    Memory(budget=facts.options.memory).check_room(len(gathered.names))
    look = Look(len(gathered), gathered.inputs.median_side, grey)
    shape = gathered.inputs.new_shape(facts.options.image_size, choose_size(facts.options, look))
    settings = choose_settings(facts.options, look, shape, gpu=pick_device(compute).type != "cpu")
    chosen = {"shape": shape, "pixels": gathered.inputs.new_format(), "settings": settings.model_dump(mode="json")}
    return facts.model_copy(update=chosen)


def _arriving(model: Model, gathered: Gathered, read: ReadImages, matched: dict[str, str]) -> Arriving:
    old = model.facts.classes
    names = [matched[name] for name in gathered.names]
    present = frozenset(names[label] for label in torch.unique(read.images.labels).tolist())
    classes = (*old, *(name for name in dict.fromkeys(names) if name in present and name not in old))
    ids = torch.tensor([classes.index(name) if name in present else -1 for name in names])
    labels = ids[read.images.labels]
    memory = {} if model.learner is None else exemplars_of(model.learner.memory)
    known = compare(read.digests, labels.tolist(), stored_classes(memory, model.held))
    keys = torch.tensor([int.from_bytes(digest[:7], "big") for digest in read.digests])
    images = replace(read.images, labels=labels).select(known.new)
    return Arriving(classes, present, images, keys[known.new], known)


def _train(model: Model, arriving: Arriving, *, epochs: int | None, compute: Compute, listen: Listener) -> Trained:
    facts, classes, stale = model.facts, arriving.classes, arriving.known.stale
    train, validation = held_back.split(arriving.images, arriving.keys)
    chosen = _epochs(model, train) if epochs is None else epochs
    settings = build(ITAMLSettings, {**facts.settings, "epochs": chosen})
    learner = model.learner or make_learner(facts, settings, compute)
    learner.configure(settings)
    share = held_back.held_share(facts.options.memory, len(classes))
    learner.memory.budget = facts.options.memory - share * len(classes)
    remove_exemplars(learner.memory, stale)
    held: Held = without(model.held, stale)
    before = task_accuracies(learner, held)
    learner.listen = listen
    learner.learn(Task(len(learner.table), tuple(range(len(facts.classes), len(classes))), train))
    after = task_accuracies(learner, held)
    kept = held_back.refresh(held, validation, share=share, seed=facts.options.seed, learn=len(facts.learns))
    facts = facts.model_copy(update={"settings": settings.model_dump(mode="json")})
    scores = task_scores(learner, held, kept, before, after)
    return Trained(Model(facts, learner, kept), train, validation, scores)


def _epochs(model: Model, train: ImageSet) -> int:
    options = model.facts.options
    if "epochs" in options.settings:
        return int(options.settings["epochs"])
    return choose_epochs(options, len(train) + (0 if model.learner is None else len(model.learner.memory)))


def _record(facts: Facts, arriving: Arriving, read: ReadImages, trained: Trained | None, start: float) -> LearnRecord:
    return LearnRecord(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        new=arriving.classes[len(facts.classes) :],
        known=tuple(name for name in facts.classes if name in arriving.present),
        images={} if trained is None else _counts(trained.train, arriving.classes),
        skipped=read.skipped,
        duplicates=arriving.known.duplicates,
        moved=arriving.known.moved,
        epochs=0 if trained is None else trained.model.facts.settings["epochs"],
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
