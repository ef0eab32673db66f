"""The history in the record of a model: bounded, and after a correction it speaks of the classes as they are now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from itaml.modelstore.manifest import EditRecord, LearnRecord, Manifest, TaskRecord, TaskScore

MAX_SCORES = 200  # accuracies of single tasks that a history keeps, those of its last learn apart


def with_learn(learns: Iterable[LearnRecord], record: LearnRecord) -> tuple[LearnRecord, ...]:
    """Return the history with one more learn.

    The accuracy of every task is kept for the latest learns alone: kept for all, it would grow with the square of the
    tasks, and every version writes the whole history. Of earlier learns the accuracy on all tasks together stays.
    """
    found, scores = [record], 0
    for entry in reversed(tuple(learns)):
        scores += len(entry.tasks)
        found.append(entry if scores <= MAX_SCORES or not entry.tasks else _without_scores(entry))
    return tuple(reversed(found))


def accuracy_of(record: LearnRecord) -> float | None:
    """Return the accuracy on all tasks after a learn; None if none was measured."""
    return record.accuracy if record.accuracy is not None else mean_accuracy(record.tasks)


def mean_accuracy(scores: Iterable[TaskScore]) -> float | None:
    """Return the accuracy on the images of all tasks together, None if there are none."""
    known = [(score.after, score.images) for score in scores if score.after is not None]
    total = sum(images for _, images in known)
    return sum(after * images for after, images in known) / total if total else None


def _without_scores(record: LearnRecord) -> LearnRecord:
    return record.model_copy(update={"tasks": (), "accuracy": accuracy_of(record)})


def without_classes(manifest: Manifest, gone: frozenset[str], *, into: str | None = None) -> Manifest:
    """Return a record without some classes, and without the tasks that had no others.

    Args:
        manifest: the record.
        gone: the classes.
        into: the class that their images are counted for from now on, if they were merged.
    """
    left = [[name for name in task.classes if name not in gone] for task in manifest.tasks]
    numbers = {old: new for new, old in enumerate(old for old, names in enumerate(left) if names)}
    tasks = tuple(
        TaskRecord(classes=tuple(names), learned=task.learned)
        for names, task in zip(left, manifest.tasks, strict=True)
        if names
    )
    learns = tuple(_learn_without(record, gone, into, numbers) for record in manifest.learns)
    edits = tuple(edit.model_copy(update={"tasks": _renumbered(edit.tasks, numbers)}) for edit in manifest.edits)
    classes = tuple(name for name in manifest.classes if name not in gone)
    return manifest.model_copy(update={"classes": classes, "tasks": tasks, "learns": learns, "edits": edits})


def with_renamed(manifest: Manifest, old: str, new: str) -> Manifest:
    """Return a record in which a class has another name."""

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if name == old else name for name in names)

    tasks = tuple(task.model_copy(update={"classes": renamed(task.classes)}) for task in manifest.tasks)
    learns = tuple(
        record.model_copy(
            update={
                "new": renamed(record.new),
                "known": renamed(record.known),
                "images": {new if name == old else name: number for name, number in record.images.items()},
            }
        )
        for record in manifest.learns
    )
    return manifest.model_copy(update={"classes": renamed(manifest.classes), "tasks": tasks, "learns": learns})


def with_edit(
    manifest: Manifest, action: str, classes: tuple[str, ...], *, detail: str = "", tasks: tuple[TaskScore, ...] = ()
) -> Manifest:
    """Return a record with one more correction in its history."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    entry = EditRecord(date=date, action=action, classes=classes, detail=detail, tasks=tasks)
    return manifest.model_copy(update={"edits": (*manifest.edits, entry)})


def without_mention(manifest: Manifest, names: frozenset[str]) -> Manifest:
    """Return a record whose corrections do not name some classes."""
    edits = tuple(entry for entry in manifest.edits if not names.intersection(entry.classes))
    return manifest.model_copy(update={"edits": edits})


def _learn_without(record: LearnRecord, gone: frozenset[str], into: str | None, numbers: dict[int, int]) -> LearnRecord:
    images = {name: number for name, number in record.images.items() if name not in gone}
    moved = sum(number for name, number in record.images.items() if name in gone)
    if into is not None and moved:
        images[into] = images.get(into, 0) + moved
    return record.model_copy(
        update={
            "new": tuple(name for name in record.new if name not in gone),
            "known": tuple(name for name in record.known if name not in gone),
            "images": images,
            "tasks": _renumbered(record.tasks, numbers),
        }
    )


def _renumbered(scores: tuple[TaskScore, ...], numbers: dict[int, int]) -> tuple[TaskScore, ...]:
    left = (score for score in scores if score.task in numbers)
    return tuple(score.model_copy(update={"task": numbers[score.task]}) for score in left)
