"""Avalanche: learners of this package as strategies, and Avalanche's benchmarks as streams. Needs `avalanche-lib`.

    benchmark = avalanche.benchmarks.SplitMNIST(n_experiences=5)
    strategy = itaml.avalanche.make_strategy("itaml", settings={"epochs": 2})
    for experience in benchmark.train_stream:
        strategy.train(experience)
        strategy.eval(benchmark.test_stream)

A strategy learns an experience as a whole, by this package's trainer: Avalanche's plugins are called before and after
training and evaluation, before and after each experience, and around each mini-batch of an evaluation, but not inside
of training. Metrics of evaluation therefore work as they are; those of training epochs are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from itaml.config import DEFAULT_PRESET, Compute, Seeds, build, load_preset
from itaml.data.dataset_wrappers import from_items
from itaml.data.images import ImageSet, join
from itaml.data.stream import Dataset, Task, TaskStream
from itaml.errors import DataError, MissingExtraError
from itaml.learners import LEARNERS
from itaml.learners.api import Learner, Prediction

NOT_INSTALLED = "this needs avalanche-lib, which cannot be imported: pip install avalanche-lib"
LEAST_PROBABILITY = 1e-12


def stream_from_benchmark(benchmark: Any, *, name: str = "avalanche") -> TaskStream:
    """Return a class-incremental benchmark of Avalanche as a stream: one task for each experience.

    Args:
        benchmark: has `train_stream` and `test_stream`; experience i of both is of the same classes.
        name: of the data set.

    Raises:
        DataError: a class is in two experiences, or images and labels are not what they should be.
    """
    train = [experience_images(experience) for experience in benchmark.train_stream]
    test = [experience_images(experience) for experience in benchmark.test_stream]
    splits = tuple(tuple(sorted(set(images.labels.tolist()))) for images in train)
    seen = [class_id for classes in splits for class_id in classes]
    if len(set(seen)) != len(seen):
        raise DataError("a class is in two experiences: a stream of tasks needs a class-incremental benchmark")
    names = tuple(map(str, range(max(seen) + 1)))
    return TaskStream(Dataset(name, names, join(train), join(test)), splits)


def experience_images(experience: Any) -> ImageSet:
    """Return the images of an experience, read when they are needed, with Avalanche's transformations."""
    labels = torch.tensor([int(label) for label in experience.dataset.targets])
    return from_items(experience.dataset, labels=labels)


def make_strategy(
    method: str = "itaml",
    *,
    preset: str = DEFAULT_PRESET,
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    evaluator: Any = None,
    plugins: Sequence[Any] = (),
    eval_mb_size: int = 128,
) -> Any:
    """Return a strategy of Avalanche that learns by a method of this package.

    Args:
        method: see `itaml list methods`.
        preset: its settings to begin with.
        settings: overrides settings by name.
        seed: root of all random draws.
        evaluator: Avalanche's `EvaluationPlugin`; by default one with the accuracy of experiences and of the stream.
        plugins: Avalanche's plugins.
        eval_mb_size: images per mini-batch of an evaluation.

    Raises:
        UnknownNameError: there is no such method, preset or setting.
        MissingExtraError: avalanche-lib cannot be imported.
    """
    kind = LEARNERS.load(method)
    values = load_preset(method, preset, benchmark="library") | {"horizon": "open"}
    fields = kind.Settings.model_fields
    built = build(kind.Settings, {key: value for key, value in values.items() if key in fields} | (settings or {}))

    def make_learner(shape: Any) -> Learner:
        learner: Learner = kind.from_settings(built, shape=shape, seeds=Seeds.of(seed), compute=Compute(device="cpu"))
        return learner

    return _strategy_class()(make_learner, evaluator=evaluator, plugins=plugins, eval_mb_size=eval_mb_size)


def scores_by_class(prediction: Prediction, size: int) -> Tensor:
    """Return scores (n, size) by class id whose largest is the predicted class: probabilities, where that is so."""
    scores = torch.zeros(len(prediction.classes), max(size, max(prediction.columns) + 1))
    scores[:, list(prediction.columns)] = prediction.probabilities
    rows = torch.arange(len(scores))
    other = scores.argmax(1) != prediction.classes
    scores[rows[other], prediction.classes[other]] += 1
    return scores


@lru_cache(maxsize=1)
def _strategy_class() -> Any:
    """Return the class of strategies, a subclass of Avalanche's template."""
    try:
        template = import_module("avalanche.training.templates.base").BaseTemplate
        plugins_module = import_module("avalanche.training.plugins")
        metrics = import_module("avalanche.evaluation.metrics")
        clock = import_module("avalanche.training.plugins.clock").Clock
        trigger = import_module("avalanche.training.utils").trigger_plugins
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingExtraError(f"{NOT_INSTALLED} ({error})") from error

    class LearnerStrategy(template):  # type: ignore[misc, valid-type]
        """A strategy whose experiences are tasks of a learner."""

        PLUGIN_CLASS = plugins_module.SupervisedPlugin

        def __init__(self, make_learner: Any, *, evaluator: Any, plugins: Sequence[Any], eval_mb_size: int) -> None:
            if evaluator is None:
                evaluator = plugins_module.EvaluationPlugin(
                    metrics.accuracy_metrics(experience=True, stream=True), loggers=[]
                )
            self.clock = clock()  # by which metrics say when they were taken
            super().__init__(model=nn.Module(), device="cpu", plugins=[*plugins, evaluator, self.clock])
            self.make_learner, self.evaluator, self.eval_mb_size = make_learner, evaluator, eval_mb_size
            self.learner: Learner | None = None
            self.tasks = 0
            self.seen: set[int] = set()

        def train(self, experiences: Any, eval_streams: Any = None, **kwargs: Any) -> Any:
            """Learn experiences; return the last value of each metric."""
            super().train(experiences, eval_streams, **kwargs)
            return self.evaluator.get_last_metrics()

        def eval(self, experiences: Any, **kwargs: Any) -> Any:
            """Evaluate on experiences; return the last value of each metric."""
            super().eval(experiences, **kwargs)
            return self.evaluator.get_last_metrics()

        def _train_exp(self, experience: Any, eval_streams: Any, **kwargs: Any) -> None:
            images = experience_images(experience)
            if self.learner is None:
                self.learner = self.make_learner(images.shape)
                self.model = getattr(self.learner, "model", nn.Module())
            new = sorted(set(images.labels.tolist()) - self.seen)
            self.learner.learn(Task(self.tasks if new else max(self.tasks - 1, 0), tuple(new), images))
            self.tasks += bool(new)
            self.seen.update(new)

        def _eval_exp(self, **kwargs: Any) -> None:
            if self.learner is None:
                raise DataError("train the strategy before it is evaluated")
            images = experience_images(self.experience)
            task = getattr(self.experience, "task_label", 0)
            for pixels, labels in images.batches(self.eval_mb_size):
                self.mb_x, self.mb_y = pixels, labels
                self.mb_task_id = torch.full_like(self.mb_y, task)
                trigger(self, "before_eval_iteration", **kwargs)
                found = self.learner.predict(self.mb_x, torch.arange(len(self.mb_x)))
                self.mb_output = scores_by_class(found, int(self.mb_y.max()) + 1)
                self.loss = F.nll_loss(self.mb_output.clamp_min(LEAST_PROBABILITY).log(), self.mb_y)
                trigger(self, "after_eval_iteration", **kwargs)

    return LearnerStrategy
