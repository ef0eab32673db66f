"""Predict classes: each image alone, in groups of one task, or in an ordered stream that is cut where tasks change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from itaml.data.images import ImageSet
from itaml.data.loader import iterate
from itaml.errors import DataError
from itaml.inference.segmentation import estimate_mean_run, runs, segment, switch_cost, temper_evidence
from itaml.learners.api import Prediction
from itaml.models.task_map import TaskMap
from itaml.modelstore.class_names import UNKNOWN
from itaml.modelstore.image_listing import what_to_install
from itaml.modelstore.input_parsing import parse_inputs
from itaml.modelstore.inputs import unreadable
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.validation import of_task
from itaml.text import finite_or_none

Unknown = Literal["auto", "never"] | float  # a number: unknown if the confidence is below it
Grouping = Literal["each", "all", "folder", "stream"]
BATCH = 128  # images of a forward pass
LEAST_PROBABILITY = 1e-40  # whose logarithm stays finite
DECIMALS = 10  # of `unknown_score`: scores that differ by rounding are reported as equal
DEFAULT_TASK_ERROR = 0.1  # of a single image's task, where there are no validation images to measure it


@dataclass(frozen=True)
class ImagePrediction:
    """What a model says of one image."""

    file: str | None  # None for images in memory
    label: str | None  # the class, `unknown`, or None if the image cannot be read
    confidence: float
    task: int | None  # counting from 0
    group: int | None  # images with one number were taken to share a task
    top: tuple[tuple[str, float], ...] = ()  # the most probable classes
    error: str | None = None
    known: bool = True  # whether `label` is a class: False if it is `unknown` or the image cannot be read
    unknown_score: float | None = None  # how little it looks like a known class; None if the learner cannot say

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain values."""
        top = [{"class": name, "confidence": probability} for name, probability in self.top]
        return {
            "file": self.file,
            "class": self.label,
            "known": self.known,
            "unknown_score": finite_or_none(self.unknown_score),
            "confidence": self.confidence,
            "task": self.task,
            "group": self.group,
            "top": top,
            "error": self.error,
        }


@dataclass(frozen=True, eq=False)
class PredictionInput:
    """Images whose class is asked for: in the model's shape, with their files, None for those in memory."""

    images: ImageSet
    files: tuple[str | None, ...]


def prepare_inputs(model: Model, images: Any) -> PredictionInput:
    """Bring images to a model's shape and format (see `ImageClassifier.predict` for what they may be.

    For errors).
    """
    manifest, inputs = model.manifest, parse_inputs(images)
    assert manifest.shape is not None
    assert manifest.pixels is not None
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    if not len(inputs):
        return PredictionInput(ImageSet.from_arrays(torch.empty(0, *manifest.shape), labels), ())
    found = inputs.images(labels, manifest.shape, manifest.pixels, exact=False, fitting=manifest.fitting)
    return PredictionInput(found, tuple(inputs.files()))


def predict_images(
    model: Model,
    inputs: PredictionInput,
    *,
    by: Grouping,
    mean_run: float | None,
    top: int,
    unknown: Unknown,
) -> list[ImagePrediction]:
    """Return a prediction for each image, in order."""
    kept, samples, alone = _read(model, inputs.images, by=by)
    read_files = [inputs.files[row] for row in kept.tolist()]
    groups = group(model, alone, read_files, by=by, mean_run=mean_run)
    predictions: list[ImagePrediction | None] = [None] * len(inputs.images)
    if len(kept):
        found = alone if alone is not None and by == "each" else model.core.predict(samples, groups)
        found = model.confidence(found)
        tasks = model.task_map.task_of(found.classes) if found.tasks is None else found.tasks
        names = [model.manifest.classes[label] for label in found.columns]
        order, values = _ranked(found, top)
        is_known = _known(found, values[:, 0], unknown)
        unknown_scores = found.unknown_scores
        scores = [None] * len(kept) if unknown_scores is None else unknown_scores.round(decimals=DECIMALS).tolist()
        numbers = (column.tolist() for column in (kept, tasks, groups, order, values))
        for row, task, number, best, likely, known, score in zip(*numbers, is_known, scores, strict=True):
            ranked = tuple((names[column], value) for column, value in zip(best, likely, strict=True))
            label = ranked[0][0] if known else UNKNOWN
            predictions[row] = ImagePrediction(
                inputs.files[row], label, likely[0], task, number, ranked, known=known, unknown_score=score
            )
    reasons = dict(unreadable(inputs.images).entries)
    return [
        prediction or _unreadable(file, reasons) for file, prediction in zip(inputs.files, predictions, strict=True)
    ]


def _known(found: Prediction, confidence: Tensor, unknown: Unknown) -> list[bool]:
    """Return which images are of a class of the model."""
    if unknown == "never":
        return [True] * len(confidence)
    if unknown == "auto":
        return [True] * len(confidence) if found.unknown is None else (~found.unknown).tolist()
    known: list[bool] = (confidence >= unknown).tolist()
    return known


def _read(model: Model, images: ImageSet, *, by: Grouping) -> tuple[Tensor, Tensor, Prediction | None]:
    """Read images once, batch by batch.

    Returns:
        The positions of those that can be read (k,); the learner's samples of them, if groups of them are to be
        predicted; and the prediction of each alone, if that is asked for.
    """
    kept, samples, alone = [torch.empty(0, dtype=torch.int64)], [], []
    for pixels, positions in iterate(images.numbered(), torch.arange(len(images)), batch_size=BATCH):
        batch = model.samples(pixels)
        kept.append(positions)
        if by != "each":
            samples.append(batch)
        if by in ("each", "stream"):
            alone.append(model.core.predict(batch, torch.arange(len(batch))))
    together = torch.cat(samples) if samples else torch.empty(0)
    return torch.cat(kept), together, _joined(alone) if alone else None


def _joined(parts: Sequence[Prediction]) -> Prediction:
    return Prediction(
        torch.cat([part.classes for part in parts]),
        _all_or_none([part.tasks for part in parts]),
        torch.cat([part.probabilities for part in parts]),
        parts[0].columns,
        _all_or_none([part.unknown for part in parts]),
        _all_or_none([part.unknown_scores for part in parts]),
    )


def _all_or_none(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Return the parts as one tensor, None if one is missing."""
    found = [part for part in parts if part is not None]
    return torch.cat(found) if len(found) == len(parts) else None


def _ranked(found: Prediction, top: int) -> tuple[Tensor, Tensor]:
    """Return the most probable columns of each image and their probabilities; the predicted class leads."""
    column_of = {class_id: column for column, class_id in enumerate(found.columns)}
    columns = torch.tensor([column_of[class_id] for class_id in found.classes.tolist()])
    first = found.probabilities.clone()
    first[torch.arange(len(first)), columns] += 2  # whatever its probability
    order = first.topk(min(max(top, 1), first.shape[1]), dim=1).indices
    return order, found.probabilities.gather(1, order)


def group(
    model: Model, alone: Prediction | None, files: Sequence[str | None], *, by: Grouping, mean_run: float | None
) -> Tensor:
    """Number the groups of images that share a task (k,), from 0 without gaps."""
    if by == "each" or not files:
        return torch.arange(len(files))
    if by == "all":
        return torch.zeros(len(files), dtype=torch.int64)
    if by == "folder":
        if None in files:
            raise DataError("images in memory are in no folders to group them by")
        numbers: dict[str, int] = {}
        return torch.tensor([numbers.setdefault(os.path.dirname(file or ""), len(numbers)) for file in files])
    assert alone is not None, "each image was predicted alone"
    evidence = temper_evidence(task_evidence(alone, model.task_map), error=task_error(model))
    cost = switch_cost(estimate_mean_run(evidence) if mean_run is None else mean_run, evidence.shape[1])
    return runs(segment(evidence, cost))


def task_evidence(prediction: Prediction, task_map: TaskMap) -> Tensor:
    """Return each image's log-evidence for each task (n, tasks): the log of the probability of all its classes."""
    task_of_column = task_map.task_of(torch.tensor(prediction.columns))
    totals = torch.zeros(len(prediction.classes), len(task_map), dtype=torch.float64)
    totals.index_add_(1, task_of_column, prediction.probabilities.double())
    return totals.clamp_min(LEAST_PROBABILITY).log()


def task_error(model: Model) -> float:
    """Return e of `inference.segmentation`: how often a single validation image's evidence misleads about its task.

    Evidence that says nothing still points to the right task once in T times, so e is the rate of wrong tasks times
    T/(T - 1). One right and one wrong image more keep few images from saying never or always.
    """
    task_map = model.task_map
    wrong = total = 0
    for task in range(len(task_map)):
        part = of_task(model.validation_images, task_map, task)
        if part is not None:
            alone = model.core.predict(part[0], torch.arange(len(part[0])))
            found = task_evidence(alone, task_map).argmax(1)
            wrong, total = wrong + int((found != task).sum()), total + len(found)
    if not total or len(task_map) < 2:
        return DEFAULT_TASK_ERROR
    return min(len(task_map) / (len(task_map) - 1) * (wrong + 1) / (total + 2), 1.0)


def _unreadable(file: str | None, reasons: dict[str, str]) -> ImagePrediction:
    reason = reasons.get(file or "", "cannot be read") + what_to_install(file or "")
    return ImagePrediction(file, None, 0.0, None, None, error=reason, known=False)
