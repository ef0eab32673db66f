"""Benchmarks: a data set, how its classes are split into tasks, and the paper's numbers for it.

Importing this module imports no torch: `itaml list benchmarks` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from itaml.errors import SettingsError, UnknownNameError
from itaml.registry import unknown

if TYPE_CHECKING:
    from itaml.data.stream import Dataset, TaskStream


@dataclass(frozen=True)
class LoadOptions:
    """How a source is read: where the data lies, and for pictures in files their side and what to do with bad ones."""

    root: Path = field(default_factory=Path.cwd)
    image_size: int | None = None
    on_bad_image: Literal["skip", "fail"] = "skip"


@dataclass(frozen=True)
class Benchmark:
    """A named setting that results can be compared under."""

    name: str
    summary: str
    source: str  # import path of a function (LoadOptions) -> Dataset
    tasks: int
    model: str
    memory: int
    p: int  # samples a continuum, beside p = 1

    def load(self, options: LoadOptions) -> Dataset:
        """Read the data set."""
        module, _, attribute = self.source.partition(":")
        dataset: Dataset = getattr(import_module(module), attribute)(options)
        return dataset


BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "digits",
            "scikit-learn's embedded 8x8 digits, 5 tasks of 2 classes; no download",
            "itaml.data.sources.digits:load",
            tasks=5,
            model="mlp",
            memory=200,
            p=20,
        ),
    )
}


def benchmark(name: str) -> Benchmark:
    """Return the benchmark called `name`.

    Raises:
        UnknownNameError: there is none; the message offers the nearest name.
    """
    if name not in BENCHMARKS:
        raise UnknownNameError(unknown("benchmark", name, BENCHMARKS))
    return BENCHMARKS[name]


def build_stream(
    benchmark: Benchmark,
    options: LoadOptions,
    *,
    split: Sequence[int] | None = None,
    order_seed: int | None = None,
) -> TaskStream:
    """Read a benchmark's data and divide its classes into tasks.

    Args:
        benchmark: which one.
        options: how to read it.
        split: classes in each task; the benchmark's own division if not given.
        order_seed: shuffles the classes; if None they keep the data set's order.

    Raises:
        SettingsError: the split does not fit the classes.
        DataError: the data is missing or broken.
    """
    from itaml.data.stream import TaskStream, split_classes  # noqa: PLC0415 (torch)

    if split is not None and not split:
        raise SettingsError("an empty split has no tasks")
    dataset = benchmark.load(options)
    classes = range(len(dataset.class_names))
    sizes = benchmark.tasks if split is None else split
    return TaskStream(dataset, split_classes(classes, sizes=sizes, order_seed=order_seed))
