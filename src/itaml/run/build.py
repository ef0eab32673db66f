"""From a configuration to a stream and a learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from itaml.config import build
from itaml.data.benchmarks import benchmark, build_stream
from itaml.data.root import data_root as find_root
from itaml.data.stream import TaskStream
from itaml.errors import DataError, SettingsError
from itaml.learners import LEARNERS
from itaml.learners.base import SgdLearner
from itaml.learners.contract import Learner
from itaml.models.classifier import build_classifier
from itaml.run.config import RunConfig


def make_stream(config: RunConfig, *, data_root: Path | None = None) -> TaskStream:
    """Read the data and divide it into tasks, as the configuration says (see `build_stream` for errors)."""
    stream = build_stream(
        benchmark(config.benchmark),
        config.load_options(find_root(data_root)),
        split=config.split,
        order_seed=config.seeds.order,
    )
    if config.validation:
        return stream.held_out(config.validation, seed=config.seed)
    for index, classes in enumerate(stream.splits):
        if not len(stream.test(index)):
            names = ", ".join(stream.class_names[c] for c in classes)
            raise DataError(f"task {index} ({names}) has no test images; --validation tests on training images instead")
    return stream


def make_learner(config: RunConfig, stream: TaskStream) -> Learner:
    """Build the learner of a run.

    Raises:
        SettingsError: the memory is smaller than the number of classes, or a task is impossible with the settings.
    """
    kind = LEARNERS.load(config.method)
    values: dict[str, Any] = dict(config.settings)
    if values.get("horizon") == "stream":
        values["horizon"] = len(stream)
    settings = build(kind.Settings, values)
    classes = sum(map(len, stream.splits))
    if getattr(kind, "uses_memory", False) and settings.memory and settings.room < classes:
        part = "" if settings.room == settings.memory else f", of which a part has {settings.room},"
        raise SettingsError(
            f"a memory of {settings.memory} pictures{part} is smaller than the {classes} classes to remember"
        )
    model = build_classifier(settings.backbone, shape=stream.shape, seed=config.seeds.init)
    learner: Learner = kind(model, settings=settings, seeds=config.seeds, compute=config.compute)
    if isinstance(learner, SgdLearner):
        for index, task_classes in enumerate(stream.splits):
            learner.check_classes(index, task_classes)
    return learner
