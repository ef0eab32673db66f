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
from itaml.learners.learner import GradientLearner
from itaml.modelstore.class_names import UNKNOWN
from itaml.modelstore.image_listing import what_to_install
from itaml.modelstore.input_parsing import parse_inputs
from itaml.modelstore.inputs import unreadable
from itaml.modelstore.loaded_model import Model
from itaml.modelstore.validation import of_task

Grouping = Literal["each", "all", "folder", "stream"]
BATCH = 128  # images of a forward pass
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

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain values."""
        top = [{"class": name, "confidence": probability} for name, probability in self.top]
        record = {"file": self.file, "class": self.label, "known": self.known, "confidence": self.confidence}
        return {**record, "task": self.task, "group": self.group, "top": top, "error": self.error}


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
    return PredictionInput(inputs.images(labels, manifest.shape, manifest.pixels, exact=False), tuple(inputs.files()))


def score(learner: GradientLearner, images: ImageSet) -> tuple[Tensor, Tensor]:
    """Return the positions of the readable images (k,) and their class scores (k, columns)."""
    kept, scores = [torch.empty(0, dtype=torch.int64)], [torch.empty(0, len(learner.task_map.classes))]
    for pixels, positions in iterate(images.numbered(), torch.arange(len(images)), batch_size=BATCH):
        kept.append(positions)
        scores.append(learner.class_scores(pixels))
    return torch.cat(kept), torch.cat(scores)


def group(model: Model, scores: Tensor, files: Sequence[str | None], *, by: Grouping, mean_run: float | None) -> Tensor:
    """Number the groups of images that share a task (k,), from 0 without gaps."""
    assert model.learner is not None
    if by == "each" or not len(scores):
        return torch.arange(len(scores))
    if by == "all":
        return torch.zeros(len(scores), dtype=torch.int64)
    if by == "folder":
        if None in files:
            raise DataError("images in memory are in no folders to group them by")
        numbers: dict[str, int] = {}
        return torch.tensor([numbers.setdefault(os.path.dirname(file or ""), len(numbers)) for file in files])
    evidence = temper_evidence(model.learner.predictor.task_evidence(scores), error=task_error(model))
    cost = switch_cost(estimate_mean_run(evidence) if mean_run is None else mean_run, evidence.shape[1])
    return runs(segment(evidence, cost))


def task_error(model: Model) -> float:
    """Return e of `inference.segmentation`: how often a single validation image's evidence misleads about its task.

    Evidence that says nothing still points to the right task once in T times, so e is the rate of wrong tasks times
    T/(T - 1). One right and one wrong image more keep few images from saying never or always.
    """
    learner = model.learner
    assert learner is not None
    parts = [(task, of_task(model.validation_images, learner.task_map, task)) for task in range(len(learner.task_map))]
    wrong = total = 0
    for task, part in parts:
        if part is not None:
            found = learner.predictor.task_evidence(learner.class_scores(part[0])).argmax(1)
            wrong, total = wrong + int((found != task).sum()), total + len(found)
    if not total or len(parts) < 2:
        return DEFAULT_TASK_ERROR
    return min(len(parts) / (len(parts) - 1) * (wrong + 1) / (total + 2), 1.0)


def predict_images(
    model: Model,
    inputs: PredictionInput,
    *,
    by: Grouping,
    mean_run: float | None,
    top: int,
    unknown_below: float,
) -> list[ImagePrediction]:
    """Return a prediction for each image, in order."""
    learner = model.learner
    assert learner is not None
    kept, scores = score(learner, inputs.images)
    read_files = [inputs.files[row] for row in kept.tolist()]
    groups = group(model, scores, read_files, by=by, mean_run=mean_run)
    adapts = learner.settings.adapt_steps > 0

    def read(rows: Tensor) -> Tensor:
        return inputs.images.batch(kept[rows])[0] if adapts else scores[:0]

    predictions: list[ImagePrediction | None] = [None] * len(inputs.images)
    if len(kept):
        classes, tasks, probabilities = learner.predictor.predict(scores, groups, read)
        columns = learner.task_map.column_of(classes)
        first = probabilities.clone()
        first[torch.arange(len(first)), columns] += 2  # the predicted class leads, whatever its probability
        order = first.topk(min(max(top, 1), probabilities.shape[1]), dim=1).indices
        names = [model.manifest.classes[label] for label in learner.task_map.classes]
        rows = zip(
            kept.tolist(),
            tasks.tolist(),
            groups.tolist(),
            order.tolist(),
            probabilities.gather(1, order).tolist(),
            strict=True,
        )
        for row, task, number, best, values in rows:
            ranked = tuple((names[column], value) for column, value in zip(best, values, strict=True))
            known = values[0] >= unknown_below
            label = ranked[0][0] if known else UNKNOWN
            predictions[row] = ImagePrediction(inputs.files[row], label, values[0], task, number, ranked, known=known)
    reasons = dict(unreadable(inputs.images).entries)
    return [
        prediction or _unreadable(file, reasons) for file, prediction in zip(inputs.files, predictions, strict=True)
    ]


def _unreadable(file: str | None, reasons: dict[str, str]) -> ImagePrediction:
    reason = reasons.get(file or "", "cannot be read") + what_to_install(file or "")
    return ImagePrediction(file, None, 0.0, None, None, error=reason, known=False)
