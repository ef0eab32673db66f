"""One learn, from what was given to the next version's record and state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import torch
from torch import Tensor

from itaml.config import Compute, Seeds, build
from itaml.data.images import ImageSet
from itaml.data.stream import Task
from itaml.errors import DataError
from itaml.events import Listener
from itaml.learners.compute import pick_device
from itaml.learners.itaml import ITAML
from itaml.learners.itaml_settings import ITAMLSettings
from itaml.library import held as held_back
from itaml.library.choose import choose_epochs, choose_settings, choose_size
from itaml.library.gather import Gathered
from itaml.library.held import Held
from itaml.library.names import match_names
from itaml.library.pixels import into_memory, unreadable
from itaml.library.record import Facts, LearnRecord, TaskRecord, TaskScore
from itaml.memory.store import Memory
from itaml.models.classifier import build_classifier
from itaml.storage import State

SKIPPED_SHOWN = 5
BATCH = 500


@dataclass(frozen=True, eq=False)
class Model:
    """A learner, what is held back from it, and what is known about both."""

    facts: Facts
    learner: ITAML | None  # None before the first learn
    held: Held

    def state(self) -> State:
        """Return the tensors to save."""
        assert self.learner is not None
        pictures = {str(label): pixels for label, pixels in self.held.items()}
        return {"learner": self.learner.state_dict(), "held": pictures}


@dataclass(frozen=True)
class LearnReport:
    """What a learn did: its record, and sentences about what was left out."""

    record: LearnRecord
    notes: tuple[str, ...]


def restore(facts: Facts, state: State | None, compute: Compute) -> Model:
    """Build the learner that a version describes (see `SgdLearner.load_state_dict` for errors)."""
    if state is None or facts.shape is None:
        return Model(facts, None, {})
    learner = make_learner(facts, build(ITAMLSettings, facts.settings), compute)
    learner.load_state_dict(state["learner"])
    return Model(facts, learner, {int(label): pixels for label, pixels in state.get("held", {}).items()})


def make_learner(facts: Facts, settings: ITAMLSettings, compute: Compute) -> ITAML:
    """Build a learner that has learned nothing."""
    assert facts.shape is not None
    network = build_classifier(settings.backbone, shape=facts.shape, seed=facts.options.seed)
    return ITAML(network, settings=settings, seeds=Seeds.of(facts.options.seed), compute=compute)


def learn(
    model: Model, gathered: Gathered, *, epochs: int | None, compute: Compute, listen: Listener
) -> tuple[Model, LearnReport]:
    """Learn what was gathered; the model given is used up. `epochs` of None is what the model was made with.

    Raises:
        DataError: the pictures cannot be learned from.
        SettingsError: the memory is too small for so many classes.
        TrainingError: training failed.
    """
    start = time.monotonic()
    facts = begun(model.facts, gathered, compute)
    matched = match_names(gathered.names, facts.classes)
    images, keys, notes, skipped = _read(gathered, facts, listen)
    present = {matched[gathered.names[label]] for label in torch.unique(images.labels).tolist()}
    new = tuple(name for name in matched.values() if name in present and name not in facts.classes)
    classes = (*facts.classes, *new)
    ids = torch.tensor([classes.index(matched[name]) if matched[name] in present else -1 for name in gathered.names])
    images = replace(images, labels=ids[images.labels])
    train, validation = held_back.split(images, keys)
    settings = build(ITAMLSettings, {**facts.settings, "epochs": epochs or _epochs(model, facts, train)})
    learner = _learner(model, facts, settings, compute)
    share = held_back.held_share(facts.options.memory, len(classes))
    learner.memory.budget = facts.options.memory - share * len(classes)
    before = task_accuracies(learner, model.held)
    learner.listen = listen
    learner.learn(Task(len(learner.table), tuple(range(len(facts.classes), len(classes))), train))
    after = task_accuracies(learner, model.held)
    held = held_back.refresh(model.held, validation, share=share, seed=facts.options.seed, learn=len(facts.learns))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = LearnRecord(
        date=now,
        new=new,
        known=tuple(name for name in facts.classes if name in present),
        pictures=_counts(train, classes),
        skipped=skipped,
        epochs=settings.epochs,
        seconds=round(time.monotonic() - start, 2),
        validation_pictures=len(validation),
        validation=accuracy(learner, validation),
        tasks=_scores(learner, model.held, held, before, after),
    )
    facts = facts.model_copy(
        update={
            "settings": settings.model_dump(mode="json"),
            "classes": classes,
            "tasks": (*facts.tasks, TaskRecord(classes=new, learned=now)) if new else facts.tasks,
            "learns": (*facts.learns, record),
        }
    )
    return Model(facts, learner, held), LearnReport(record, tuple(notes))


def begun(facts: Facts, gathered: Gathered, compute: Compute) -> Facts:
    """Return the facts with shape and settings, chosen now if this is the first learn.

    Raises:
        DataError: none of the pictures can be read.
        UsageError: an option does not exist or is not possible.
    """
    if facts.shape is not None:
        return facts
    Memory(budget=facts.options.memory).check_room(len(gathered.names))
    look = gathered.look()
    shape = gathered.shape(choose_size(facts.options, look))
    settings = choose_settings(facts.options, look, shape, gpu=pick_device(compute).type != "cpu")
    return facts.model_copy(update={"shape": shape, "settings": settings.model_dump(mode="json")})


def _read(gathered: Gathered, facts: Facts, listen: Listener) -> tuple[ImageSet, Tensor, list[str], int]:
    """Return the readable pictures with labels that count along `gathered.names`, their keys, and what was left out."""
    assert facts.shape is not None
    wanted = gathered.images(facts.shape)
    rows = replace(wanted, labels=torch.arange(len(wanted)))  # so that what is left tells which pictures it is
    bad = unreadable(wanted)
    images = into_memory(rows, wanted.labels, listen=listen)
    if not len(images):
        raise DataError("none of the pictures can be read; are they pictures?" + _examples(bad.entries))
    kept = images.labels
    images = replace(images, labels=wanted.labels[kept])
    notes = list(gathered.notes)
    if bad.count:
        notes.append(f"{bad.count} pictures could not be read and were left out{_examples(bad.entries)}")
    there = set(torch.unique(images.labels).tolist())
    notes += [
        f"class {name!r} has no picture that can be read and was left out"
        for label, name in enumerate(gathered.names)
        if label not in there
    ]
    return images, gathered.keys()[kept], notes, bad.count


def _examples(entries: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"{path}: {reason}" for path, reason in entries[:SKIPPED_SHOWN])
    return f" ({shown}{', ...' if len(entries) > SKIPPED_SHOWN else ''})" if entries else ""


def _epochs(model: Model, facts: Facts, train: ImageSet) -> int:
    if "epochs" in facts.options.settings:
        return int(facts.options.settings["epochs"])
    known = len(model.learner.memory) if model.learner is not None else 0
    return choose_epochs(facts.options, len(train) + known)


def _learner(model: Model, facts: Facts, settings: ITAMLSettings, compute: Compute) -> ITAML:
    if model.learner is None:
        return make_learner(facts, settings, compute)
    model.learner.settings = settings
    return model.learner


def accuracy(learner: ITAML, images: ImageSet) -> float | None:
    """Return the share of pictures that are named rightly, each alone among all classes; None if there are none."""
    right = total = 0
    for pixels, labels in images.batches(BATCH):
        if len(labels):
            right += int((predict_alone(learner, pixels) == labels).sum())
            total += len(labels)
    return right / total if total else None


def predict_alone(learner: ITAML, pixels: Tensor) -> Tensor:
    """Return the class of each picture (n,), each a continuum of its own."""
    return learner.decide(learner.class_scores(pixels), torch.arange(len(pixels)), lambda rows: pixels[rows])[0]


def task_accuracies(learner: ITAML, held: Held) -> list[float | None]:
    """Return for each task the accuracy on its held-back pictures."""
    found = [held_back.of_task(held, learner.table, task) for task in range(len(learner.table))]
    return [None if part is None else accuracy(learner, ImageSet.from_arrays(*part)) for part in found]


def _scores(
    learner: ITAML, old: Held, new: Held, before: list[float | None], after: list[float | None]
) -> tuple[TaskScore, ...]:
    """Old tasks are compared on the pictures held back before this learn, the new task on those held back by it."""
    scores = []
    for task in range(len(learner.table)):
        held = old if task < len(before) else new
        part = held_back.of_task(held, learner.table, task)
        scores.append(
            TaskScore(
                task=task,
                pictures=0 if part is None else len(part[1]),
                before=before[task] if task < len(before) else None,
                after=after[task] if task < len(before) else _accuracy_of(learner, part),
            )
        )
    return tuple(scores)


def _accuracy_of(learner: ITAML, part: tuple[Tensor, Tensor] | None) -> float | None:
    return None if part is None else accuracy(learner, ImageSet.from_arrays(*part))


def _counts(images: ImageSet, classes: tuple[str, ...]) -> dict[str, int]:
    found = torch.bincount(images.labels, minlength=len(classes)).tolist()
    return {name: count for name, count in zip(classes, found, strict=True) if count}
