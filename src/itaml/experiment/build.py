"""From a configuration to a stream and a learner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from itaml.config import build
from itaml.data.benchmarks import benchmark, build_stream
from itaml.data.images import ClassId
from itaml.data.readable import unreadable_classes
from itaml.data.root import data_root as find_root
from itaml.data.stream import TaskStream
from itaml.errors import DataError, SettingsError
from itaml.experiment.run_config import RunConfig
from itaml.learners import LEARNERS
from itaml.learners.api import Learner, Traits, check_processes
from itaml.memory.byte_memory import ByteMemory

MOST_NAMES = 10  # classes named in an error


def make_stream(config: RunConfig, *, data_root: Path | str | None = None) -> TaskStream:
    """Read the data and divide it into tasks, as the configuration says (see `build_stream` for errors)."""
    stream = build_stream(
        benchmark(config.benchmark),
        config.load_options(find_root(data_root)),
        split=config.split,
        order_seed=config.seeds.order,
    )
    if config.validation:
        stream = stream.validation_split(config.validation, seed=config.seed)
    check_readable(stream)
    return stream


def check_readable(stream: TaskStream) -> None:
    """Refuse a stream that cannot be learned or evaluated because of missing or unreadable images.

    Raises:
        DataError: a class has no readable training image, or a task no readable test image; the classes are named.
    """
    classes = [class_id for split in stream.splits for class_id in split]
    missing = unreadable_classes(stream.dataset.train, classes)
    if missing:
        raise DataError(f"no training image can be read of {_names(stream, missing)}: mend or remove these classes")
    untested = set(unreadable_classes(stream.dataset.test, classes))
    for index, split in enumerate(stream.splits):
        if untested.issuperset(split):
            what = "no test image that can be read" if len(stream.test(index)) else "no test images"
            raise DataError(
                f"task {index} ({_names(stream, split)}) has {what}; --validation tests on training images instead"
            )


def _names(stream: TaskStream, classes: Sequence[ClassId]) -> str:
    names = ", ".join(stream.class_names[class_id] for class_id in classes[:MOST_NAMES])
    return names if len(classes) <= MOST_NAMES else f"{names} and {len(classes) - MOST_NAMES} more classes"


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
    if getattr(kind, "traits", Traits(memory="none")).uses_memory:
        _check_memory(settings, stream)
    check_processes(config.method, getattr(kind, "traits", Traits()))
    if getattr(kind, "from_settings", None) is None:
        raise SettingsError(
            f"{config.method} has no classmethod from_settings(settings, *, shape, seeds, compute) that makes a learner"
        )
    learner: Learner = kind.from_settings(settings, shape=stream.shape, seeds=config.seeds, compute=config.compute)
    check_classes = getattr(learner, "check_classes", None)
    if check_classes is not None:  # refuses tasks that the settings make impossible, before any training
        for index, task_classes in enumerate(stream.splits):
            check_classes(index, task_classes)
    return learner


def _check_memory(settings: Any, stream: TaskStream) -> None:
    """Refuse a memory that cannot hold an exemplar of every class."""
    classes = sum(map(len, stream.splits))
    ByteMemory(budget=getattr(settings, "memory_bytes", 0)).check_room(classes, stream.dataset.train)
    if settings.memory and settings.room < classes:
        part = "" if settings.room == settings.memory else f", of which a part has {settings.room},"
        raise SettingsError(
            f"a memory of {settings.memory} images{part} is smaller than the {classes} classes to remember"
        )
