"""`check_learner`: does a learner keep the contract? For every learner of this package, and for anybody's own.

    from itaml.testing import SHAPE, check_learner

    check_learner(lambda: MyLearner(build_classifier("mlp", shape=SHAPE, seed=0), ...))

A learner that breaks a rule fails with a `ConformanceError` that names the rule.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from itaml import seeding
from itaml.data.images import ClassId, ImageSet, Shape
from itaml.data.stream import Task
from itaml.errors import DataError
from itaml.events import EpochDone, Event
from itaml.learners.api import Learner, Prediction, Scoring, task_scores
from itaml.storage import State, load_state, save_state

SHAPE: Shape = (1, 6, 6)
CLASSES: tuple[tuple[ClassId, ...], ...] = ((3, 0), (1,), (4, 2))  # uneven tasks, ids out of order
TRAIN, TEST = 16, 6  # images per class
KIND = "conformance check"

Factory = Callable[[], Learner]


class ConformanceError(AssertionError):
    """A learner that breaks a rule of the contract."""


def check_learner(factory: Factory) -> None:
    """Check that learners made by `factory` keep the contract of `itaml.learners.api`.

    Args:
        factory: returns a new learner for images of shape `SHAPE`, each time the same one. It should have at least two
            epochs, if it has epochs, and settings with which it can learn two easy classes of 16 images.

    Raises:
        ConformanceError: with the rule that is broken.
    """
    _check_untaught(factory())
    learner = factory()
    for index in range(len(CLASSES)):
        _check_task(learner, index)
    _check_predicting_changes_nothing(learner)
    _check_round_trip(learner, factory)
    _check_scoring(learner)
    _check_refusals(learner)
    _check_resume(learner, factory)


@dataclass(eq=False)
class WatchedPixels:
    """Pixels in memory that remember which rows were read."""

    values: Tensor  # (n, c, h, w)
    read_rows: set[int] = field(default_factory=set)

    @property
    def shape(self) -> Shape:
        """Shape of one image."""
        channels, height, width = self.values.shape[1:]
        return channels, height, width

    def __len__(self) -> int:
        return len(self.values)

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels of `rows`, and remember them."""
        self.read_rows.update(rows.tolist())
        return self.values[rows], torch.arange(len(rows))


def tiny_tasks() -> tuple[list[Task], list[ImageSet], WatchedPixels]:
    """Return tasks of easy images, each task's test images, and the pixels of both, in one store."""
    generator = seeding.generator(0, "conformance")
    patterns = torch.randint(0, 256, (5, *SHAPE), generator=generator).float()
    labels = torch.arange(5).repeat_interleave(TRAIN + TEST)
    noise = 30 * torch.randn(len(labels), *SHAPE, generator=generator)
    store = WatchedPixels((patterns[labels] + noise).clamp(0, 255).to(torch.uint8))
    everything = ImageSet(store, labels, torch.arange(len(labels)))
    training = torch.arange(len(labels)) % (TRAIN + TEST) < TRAIN
    train, test = (everything.select(side.nonzero().flatten()) for side in (training, ~training))
    tasks = [Task(index, classes, train.of_classes(classes)) for index, classes in enumerate(CLASSES)]
    return tasks, [test.of_classes(classes) for classes in CLASSES], store


def same_bits(left: Any, right: Any) -> bool:
    """Return whether two states are equal to the bit; lists and tuples count as the same."""
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, Mapping):
        if not isinstance(right, Mapping) or left.keys() != right.keys():
            return False
        return all(same_bits(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return isinstance(right, (list, tuple)) and len(left) == len(right) and all(map(same_bits, left, right))
    return bool(left == right)


def saved_state(learner: Learner) -> State:
    """Return a learner's state as it comes back from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        save_state(path, learner.state_dict(), kind=KIND)
        return load_state(path, kind=KIND)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ConformanceError(rule)


def _refused(action: Callable[[], object], what: str) -> None:
    try:
        action()
    except DataError:
        return
    except Exception as error:
        raise ConformanceError(f"{what} must be refused with a DataError, not with {error!r}") from error
    raise ConformanceError(f"{what} must be refused with a DataError, and was accepted")


def _check_untaught(learner: Learner) -> None:
    _refused(lambda: learner.predict(torch.zeros(1, *SHAPE, dtype=torch.uint8)), "predicting before learning")


def _check_task(learner: Learner, index: int) -> None:
    tasks, tests, store = tiny_tasks()
    learner.learn(tasks[index])
    others = store.read_rows - set(tasks[index].train.rows.tolist())
    _require(not others, f"learning task {index} read {len(others)} images that are not its training images")
    images, labels = tests[index].load()
    prediction = learner.predict(images)
    _check_prediction(prediction, len(images), {c for classes in CLASSES[: index + 1] for c in classes})
    if index == 0:
        right = float((prediction.classes == labels).double().mean())
        _require(
            right >= 0.8, f"after a task of two easy classes, {right:.0%} of their test images are classified correctly"
        )


def _check_prediction(prediction: Prediction, count: int, seen: set[ClassId]) -> None:
    got = tuple(prediction.classes.shape)
    _require(got == (count,), f"{count} samples got classes of shape {got}")
    strangers = set(prediction.classes.tolist()) - seen
    _require(not strangers, f"classes {sorted(strangers)} were predicted, and only {sorted(seen)} were learned")
    columns = sorted(prediction.columns)
    _require(columns == sorted(seen), f"scores have columns for classes {columns}, and {sorted(seen)} were learned")
    got, expected = tuple(prediction.probabilities.shape), (count, len(columns))
    _require(got == expected, f"scores are of shape {got}, not {expected}")
    sums = prediction.probabilities.double().sum(1)
    sound = bool((prediction.probabilities >= 0).all()) and bool(((sums - 1).abs() < 1e-4).all())
    _require(sound, "the scores of a sample are not probabilities that add up to 1")


def _check_predicting_changes_nothing(learner: Learner) -> None:
    before, images = saved_state(learner), tiny_tasks()[1][0].load()[0]
    first, second = learner.predict(images), learner.predict(images)
    _require(
        same_bits(first.probabilities, second.probabilities), "predicting the same samples twice gave different scores"
    )
    _require(same_bits(before, saved_state(learner)), "predicting changed the learner's state")


def _check_round_trip(learner: Learner, factory: Factory) -> None:
    images, state, other = tiny_tasks()[1][1].load()[0], saved_state(learner), factory()
    other.load_state_dict(state)
    _require(same_bits(state, saved_state(other)), "a learner that took over a state has another state")
    here, there = learner.predict(images), other.predict(images)
    _require(same_bits(here.classes, there.classes), "a learner that took over a state predicts other classes")
    _require(
        same_bits(here.probabilities, there.probabilities), "a learner that took over a state predicts other scores"
    )


def _check_scoring(learner: Learner) -> None:
    if not isinstance(learner, Scoring):
        return
    for images in (part.load()[0] for part in tiny_tasks()[1]):
        prediction = learner.predict(images)
        scores = learner.class_scores(images)
        _require(scores.shape == (len(images), len(learner.task_map.classes)), "class_scores must be (n, columns)")
        task = int(task_scores(learner, scores, images).mean(0).argmax())
        found = None if prediction.tasks is None else sorted(set(prediction.tasks.tolist()))
        _require(found == [task], f"predict finds task {found}, and task_scores find {task}")
        inside = learner.adapted_scores(images, scores, task)
        named = learner.task_map.class_tensor[learner.task_map.columns(task)][inside.argmax(1)]
        _require(same_bits(named, prediction.classes), "predict and adapted_scores name different classes")


def _check_refusals(learner: Learner) -> None:
    tasks, _, _ = tiny_tasks()
    before, wrong = saved_state(learner), torch.zeros(4, 3, 5, 5, dtype=torch.uint8)
    again = Task(len(CLASSES), tasks[0].classes, tasks[0].train)
    _refused(lambda: learner.learn(again), "a task with classes of an earlier task")
    other = Task(len(CLASSES), (9,), ImageSet.from_arrays(wrong, [9] * 4))
    _refused(lambda: learner.learn(other), "a task with images of another shape")
    _refused(lambda: learner.predict(wrong), "predicting images of another shape")
    _refused(lambda: learner.predict(torch.zeros(0, *SHAPE, dtype=torch.uint8)), "predicting no samples")
    _require(same_bits(before, saved_state(learner)), "a refused request changed the learner's state")


class _Stop(Exception):  # noqa: N818 (not an error)
    pass


def _check_resume(uninterrupted: Learner, factory: Factory) -> None:
    """Learn again, as a new learner from a file after every epoch, and compare."""
    learner = factory()
    if not hasattr(learner, "callback"):
        return
    saved: list[State] = []

    def stop(event: Event) -> None:
        if isinstance(event, EpochDone):
            saved.append(saved_state(learner))
            raise _Stop

    for task in tiny_tasks()[0]:
        finished = False
        while not finished:
            learner.callback = stop
            try:
                learner.learn(task)
                finished = True
            except _Stop:
                learner = factory()
                learner.load_state_dict(saved[-1])
                _require(
                    same_bits(saved[-1], saved_state(learner)), "a state in the middle of a task came back changed"
                )
    _require(bool(saved), "no EpochDone was passed to `callback`")
    _require(
        same_bits(saved_state(uninterrupted), saved_state(learner)),
        "a learner that was stopped after every epoch, saved and restored differs from one that was not",
    )
