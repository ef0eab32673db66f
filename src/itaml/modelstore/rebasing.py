"""Learn a model again with another backbone or method, from the images that it keeps.

The classes, their tasks and the history stay. What was learned of images that are not kept any more is lost: the new
model knows the exemplars and validation images alone. The model with the old backbone need not be usable for this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from itaml.config import Compute
from itaml.data.images import ImageSet
from itaml.errors import DataError
from itaml.events import Callback, Event, ignore
from itaml.learners.compute import limited_threads
from itaml.models.backbones.program_trust import trust_programs
from itaml.modelstore.duplicates import Known
from itaml.modelstore.history import with_edit
from itaml.modelstore.kept_pixels import KeptPixels, kept_pixels, resized_to
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.manifest import Manifest, TaskScore
from itaml.modelstore.model_folder import ModelFolder
from itaml.modelstore.rebase_settings import rebased_manifest
from itaml.modelstore.training import Arriving, train
from itaml.modelstore.version_writer import changing, write


@dataclass(frozen=True)
class TaskLearnedAgain(Event):
    """One of the tasks of a model has been learned again."""

    task: int  # counting from 0
    tasks: int
    classes: tuple[str, ...]


@dataclass(frozen=True)
class RebaseReport:
    """What a rebase did."""

    before: tuple[str, str | None]  # method and backbone
    after: tuple[str, str | None]
    classes: int
    images: int  # that it was learned again from
    seconds: float
    version: int  # that was written
    tasks: tuple[TaskScore, ...]  # `before` is what was measured last with the old backbone
    notes: tuple[str, ...] = ()


def rebase(
    path: Path,
    *,
    backbone: str | None = None,
    method: str | None = None,
    compute: Compute | None = None,
    threads: int | None = None,
    callback: Callback = ignore,
) -> RebaseReport:
    """Learn a model again and write it as a new version, which `rollback` undoes.

    Args:
        path: folder of the model.
        backbone: the new backbone; None keeps it.
        method: the new method; None keeps it.
        compute: where to compute.
        threads: CPU threads to use.
        callback: called with progress events.

    Raises:
        UsageError: there is no model, neither is given, or both are what the model has.
        UnknownNameError: there is no such backbone or method.
        SettingsError: the two do not go together, or the memory is too small.
        DataError: nothing was learned, or no image of a class is kept.
        LockedError: another process is changing the model.
    """
    folder, start, compute = ModelFolder(path), time.monotonic(), compute or Compute()
    folder.require()
    trust_programs([backbone])
    with changing(folder), limited_threads(threads):
        old = folder.read()
        target, notes = rebased_manifest(old.manifest, backbone=backbone, method=method, compute=compute)
        kept = kept_pixels(folder, old, compute)
        _check_classes(old.manifest, kept)
        kept = resized_to(kept, old.manifest, target)
        model, scores = _learned_again(target, old.manifest, kept, compute, callback)
        scores = _with_before(scores, old.manifest)
        before, after = _names(old.manifest), _names(target)
        detail = f"{_told(before)} -> {_told(after)}"
        manifest = with_edit(model.manifest, "rebase", (), detail=detail, tasks=scores)
        pointer = write(folder, manifest, model.state(), model.files)
    seconds = round(time.monotonic() - start, 2)
    return RebaseReport(before, after, len(manifest.classes), len(kept.labels), seconds, pointer.number, scores, notes)


def _check_classes(manifest: Manifest, kept: KeptPixels) -> None:
    there = set(kept.labels.tolist())
    empty = [name for label, name in enumerate(manifest.classes) if label not in there]
    if empty:
        raise DataError(
            f"the model keeps no image of class {empty[0]!r}, so it cannot be learned again; "
            f"`itaml learn` some, or `itaml forget` the class"
        )


def _learned_again(
    target: Manifest, old: Manifest, kept: KeptPixels, compute: Compute, callback: Callback
) -> tuple[Model, tuple[TaskScore, ...]]:
    """Learn task by task, in the order in which they arrived."""
    model, scores = Model(target, None, {}), tuple[TaskScore, ...]()
    for number, task in enumerate(old.tasks):
        manifest = model.manifest
        classes = (*manifest.classes, *task.classes)
        rows = torch.cat([(kept.labels == old.classes.index(name)).nonzero().flatten() for name in task.classes])
        labels = torch.tensor([classes.index(old.classes[label]) for label in kept.labels[rows].tolist()])
        trained = train(
            model, _arriving(classes, task.classes, kept, rows, labels), epochs=None, compute=compute, callback=callback
        )
        changes = {"classes": classes, "tasks": (*manifest.tasks, task)}
        files = {**model.files, **trained.model.files}
        model = replace(trained.model, manifest=trained.model.manifest.model_copy(update=changes), files=files)
        scores = trained.scores
        callback(TaskLearnedAgain(number, len(old.tasks), task.classes))
    return kept.with_original_files(model), scores


def _arriving(
    classes: tuple[str, ...], present: Sequence[str], kept: KeptPixels, rows: Tensor, labels: Tensor
) -> Arriving:
    images = ImageSet.from_arrays(kept.pixels[rows], labels)
    known = Known(torch.arange(len(rows)), 0, 0, 0, frozenset())
    return Arriving(classes, frozenset(present), images, [kept.digests[row] for row in rows.tolist()], known)


def _with_before(scores: Sequence[TaskScore], old: Manifest) -> tuple[TaskScore, ...]:
    """Return scores beside what was measured last, by a learn or by a rebase after it."""
    measured = [(entry.date, entry.tasks) for entry in old.learns]
    measured += [(entry.date, entry.tasks) for entry in old.edits if entry.tasks]
    newest = max(measured, key=lambda entry: entry[0])[1] if measured else ()
    last = {score.task: score.after for score in newest}
    return tuple(score.model_copy(update={"before": last.get(score.task)}) for score in scores)


def _names(manifest: Manifest) -> tuple[str, str | None]:
    return manifest.method, manifest.settings.get("backbone")


def _told(names: tuple[str, str | None]) -> str:
    return names[0] if names[1] is None else f"{names[0]} on {names[1]}"
