"""Evaluate a learner under every protocol with one pass over the test images.

| number      | meaning                                                                                        |
|-------------|------------------------------------------------------------------------------------------------|
| class at p  | share of samples whose class is right, when p samples of one unknown task come together        |
| task at p   | share of samples that are in a continuum whose task was found                                  |
| task-aware  | class accuracy when the task is given: adapted weights, arg-max inside the task                 |
| no update   | class accuracy of the generic model alone: arg-max over all classes, no task, no adaptation    |

A sample whose task is found wrongly has the wrong class as well. So the class accuracy at p follows from the adapted
model of each sample's true task alone, and adapting to wrongly found tasks is never needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from itaml import distributed, seeding
from itaml.data.continuum import continuum_ids
from itaml.data.images import ClassId
from itaml.data.ownership import own_batches, owners, read_together
from itaml.data.stream import TaskStream
from itaml.errors import DataError
from itaml.inference.task_prediction import predict_tasks
from itaml.learners.api import Learner, Prediction, Scoring, task_scores
from itaml.metrics.metric_registry import measured
from itaml.metrics.samples import Samples
from itaml.metrics.scores import accuracy, confusion, group_accuracy

BATCH = 500


@dataclass(frozen=True)
class ContinuumAccuracy:
    """Accuracies with continua of p samples."""

    p: int
    classes: float
    tasks: float | None
    by_task: list[float]  # class accuracy on each task's test images


@dataclass(frozen=True)
class Evaluation:
    """Accuracies on the test images of all tasks seen so far."""

    at: dict[int, ContinuumAccuracy]
    task_aware: float | None
    no_update: float | None
    by_class: dict[ClassId, float]  # class accuracy at the smallest p
    task_confusion: list[list[int]] | None  # samples by true task and task found at the smallest p
    measures: dict[str, float | None] = field(default_factory=dict)  # of metrics with a `measure`, at p = 1


@dataclass(frozen=True, eq=False)
class _Scores:
    labels: Tensor  # (n,)
    tasks: Tensor  # (n,) true task
    evidence: Tensor  # (n, tasks)
    aware: Tensor  # (n,) right when the task is given
    plain: Tensor  # (n,) right without task or adaptation
    confidence: Tensor  # (n,) probability of the class predicted for a single sample; NaN from a learner without any


def evaluate(
    learner: Learner, stream: TaskStream, *, seen: int, continuum_sizes: Sequence[int], seed: int
) -> Evaluation:
    """Evaluate on the test images of the first `seen` tasks.

    Args:
        learner: what to evaluate; with the `Scoring` methods in one pass, else continuum by continuum.
        stream: where the test images are.
        seen: how many tasks the learner has learned.
        continuum_sizes: sizes of continua.
        seed: decides which samples form a continuum; the same for every learner.

    Raises:
        DataError: a task has no test image that can be read.
    """
    if not isinstance(learner, Scoring):
        return _by_prediction(learner, stream, seen=seen, continuum_sizes=continuum_sizes, seed=seed)
    scores = _score(learner, stream, seen)
    at, found = {}, {}
    for p in continuum_sizes:
        continua = _continua(scores.tasks, p, seed)
        found[p] = predict_tasks(scores.evidence, continua)[continua]
        right_task = found[p] == scores.tasks
        hits = right_task & scores.aware
        at[p] = ContinuumAccuracy(p, accuracy(hits), accuracy(right_task), group_accuracy(hits, scores.tasks, seen))
    least = min(continuum_sizes)
    hits = (found[least] == scores.tasks) & scores.aware
    return Evaluation(
        at,
        task_aware=accuracy(scores.aware),
        no_update=accuracy(scores.plain),
        by_class=_by_class(hits, scores.labels),
        task_confusion=confusion(found[least], scores.tasks, seen),
        measures=_measures(Samples(scores.labels, scores.tasks, hits, scores.confidence)) if least == 1 else {},
    )


def _score(learner: Scoring, stream: TaskStream, seen: int) -> _Scores:
    """Walk once through the test images, task by task; several processes walk through different parts of them."""
    found = []
    for task, positions in _own_pieces(stream, seen):
        images, kept = stream.test(task).numbered().batch(positions)
        if len(kept):
            found.append((task, kept, _score_batch(learner, images, stream.test(task).labels[kept], task)))
    every = [part for parts in distributed.gather_objects(found) for part in parts]
    missing = set(range(seen)) - {task for task, _, _ in every}
    if missing:
        raise _untested(stream, min(missing))
    starts = torch.tensor([0, *(len(stream.test(task)) for task in range(seen))]).cumsum(0)
    order = torch.cat([starts[task] + kept for task, kept, _ in every]).argsort()
    return _Scores(*(torch.cat(column)[order] for column in zip(*(values for _, _, values in every), strict=True)))


def _own_pieces(stream: TaskStream, seen: int) -> list[tuple[int, Tensor]]:
    """Return the tasks and positions of the test images that this process reads, in batches."""
    if any(owners(stream.test(task)) is not None for task in range(seen)):
        return [(task, positions) for task in range(seen) for positions in own_batches(stream.test(task), BATCH)]
    pieces = [
        (task, positions) for task in range(seen) for positions in torch.arange(len(stream.test(task))).split(BATCH)
    ]
    return [pieces[number] for number in distributed.own_block(len(pieces))]


def _score_batch(learner: Scoring, images: Tensor, labels: Tensor, task: int) -> tuple[Tensor, ...]:
    """Return the fields of `_Scores` for images of one task."""
    scores = learner.class_scores(images)
    evidence = task_scores(learner, scores, images)
    inside = learner.adapted_scores(images, scores, task)  # (k, size)
    targets = learner.task_map.column_of(labels)
    return (
        labels,
        torch.full_like(labels, task),
        evidence,
        inside.argmax(1) + learner.task_map.columns(task).start == targets,
        scores.argmax(1) == targets,
        _confidence(learner, scores, inside, task, found=evidence.argmax(1)),
    )


def _confidence(learner: Scoring, scores: Tensor, inside: Tensor, task: int, *, found: Tensor) -> Tensor:
    """Return the probability that `predict` gives to the class it predicts for each sample alone (k,).

    A learner that adapts would need another pass through the network for samples whose task is found wrongly. For these
    the generic model's probability inside that task is taken; without adaptation the two are the same.

    Args:
        learner: what predicts.
        scores: class scores of samples of one task (k, columns).
        inside: their scores inside their own task (k, size), which serve wherever that task is found.
        task: their own task.
        found: the task that each sample alone is taken for (k,).
    """
    evidence_of = getattr(getattr(learner, "predictor", learner), "task_evidence", None)
    if evidence_of is None:
        return torch.full((len(scores),), float("nan"), dtype=torch.float64)
    largest = inside.double().softmax(1).amax(1)
    for other in found[found != task].unique().tolist():
        rows = (found == other).nonzero().flatten()
        largest[rows] = scores[rows, learner.task_map.columns(other)].double().softmax(1).amax(1)
    posterior: Tensor = evidence_of(scores).double().softmax(1)
    return largest * posterior.gather(1, found[:, None]).squeeze(1)


def _measures(samples: Samples) -> dict[str, float | None]:
    return {key: function(samples) for key, function in measured("measure").items()}


def _by_prediction(
    learner: Learner, stream: TaskStream, *, seen: int, continuum_sizes: Sequence[int], seed: int
) -> Evaluation:
    """Evaluate a learner that can only `predict`."""
    tests = [stream.test(task) for task in range(seen)]
    sets = [read_together(images, torch.arange(len(images))) for images in tests]
    for task, part in enumerate(sets):
        if not len(part[1]):
            raise _untested(stream, task)
    images, labels = (torch.cat(part) for part in zip(*sets, strict=True))
    tasks = torch.repeat_interleave(torch.arange(seen), torch.tensor([len(part[1]) for part in sets]))
    at, by_class, confidence = {}, {}, torch.empty(len(labels), dtype=torch.float64)
    for p in sorted(continuum_sizes, reverse=True):
        prediction = learner.predict(images, _continua(tasks, p, seed))
        hits, confidence = prediction.classes == labels, _probability(prediction)
        right_task = None if prediction.tasks is None else accuracy(prediction.tasks == tasks)
        at[p] = ContinuumAccuracy(p, accuracy(hits), right_task, group_accuracy(hits, tasks, seen))
        by_class = _by_class(hits, labels)
    measures = _measures(Samples(labels, tasks, hits, confidence)) if min(continuum_sizes) == 1 else {}
    return Evaluation({p: at[p] for p in continuum_sizes}, None, None, by_class, None, measures)


def _probability(prediction: Prediction) -> Tensor:
    """Return the probability of each predicted class (n,)."""
    column = {class_id: number for number, class_id in enumerate(prediction.columns)}
    rows = torch.tensor([column[class_id] for class_id in prediction.classes.tolist()])
    return prediction.probabilities.double().gather(1, rows[:, None]).squeeze(1)


def _untested(stream: TaskStream, task: int) -> DataError:
    names = ", ".join(stream.class_names[class_id] for class_id in stream.splits[task])
    return DataError(f"task {task} ({names}) has no test image that can be read")


def _continua(tasks: Tensor, p: int, seed: int) -> Tensor:
    return continuum_ids(tasks, p, generator=seeding.generator(seed, "continua", p))


def _by_class(hits: Tensor, labels: Tensor) -> dict[ClassId, float]:
    classes, groups = labels.unique(return_inverse=True)
    return dict(zip(classes.tolist(), group_accuracy(hits, groups, len(classes)), strict=True))
