"""Benchmarks: a data set, how its classes are split into tasks, and the paper's numbers for it.

Importing this module imports no torch: `itaml list benchmarks` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from itaml.data.remote_files import is_url
from itaml.data.root import data_root
from itaml.errors import SettingsError, UnknownNameError
from itaml.registry import unknown

if TYPE_CHECKING:
    from itaml.data.stream import Dataset, TaskStream


@dataclass(frozen=True)
class LoadOptions:
    """How a source is read: where the data lies, and for images in files their side and what to do with bad ones."""

    root: Path = field(default_factory=data_root)
    image_size: int | None = None  # the source's own if None; data sets in memory keep theirs
    on_bad_image: Literal["skip", "fail"] = "skip"
    url: str = ""  # where the data lies, if it is not on this machine


@dataclass(frozen=True)
class Benchmark:
    """A named setting that results can be compared under."""

    name: str
    summary: str
    source: str  # import path of a function (LoadOptions) -> Dataset
    tasks: int
    model: str
    memory: int
    p: int  # samples per continuum, besides p = 1
    url: str = ""  # where the data lies, if the name of the benchmark says so and it is not on this machine
    path: Path | None = None  # where the data lies, if the name of the benchmark says so; fewer classes, fewer tasks

    def load(self, options: LoadOptions) -> Dataset:
        """Read the data set."""
        module, _, attribute = self.source.partition(":")
        options = replace(options, root=self.path or options.root, url=self.url)
        dataset: Dataset = getattr(import_module(module), attribute)(options)
        return dataset


_THIRD, _SMALL = "resnet18-third", "resnet18-small"
_DIGITS, _MNIST, _FASHION = "digits:load", "mnist:load", "mnist:load_fashion"
_CIFAR10, _CIFAR100, _CIFAR100_16 = "cifar:load_10", "cifar:load_100", "cifar:load_100_16px"
_IMAGENET100, _IMAGENET1K = "imagenet:load_100", "imagenet:load_1k"

# Tasks, memory and networks of the paper's data sets are those of its section 4.1, p for CIFAR-100, ImageNet and Celeb
# those of section 4.2; it names no network for Celeb and no p for MNIST and SVHN, which get the usual. It
# does not use digits, Fashion-MNIST, CIFAR-10 and Tiny-ImageNet, which get the numbers of the set most like them.
# SVHN-10k and 16 x 16 images are small benchmarks of our own, whose results are never those of SVHN or CIFAR-100.
_TABLE: tuple[tuple[str, str, str, int, str, int, int], ...] = (
    ("digits", "scikit-learn's embedded 8x8 digits, 5 tasks of 2 classes; no download", _DIGITS, 5, "mlp", 200, 20),
    ("mnist-5", "MNIST, 5 tasks of 2 classes", _MNIST, 5, "mlp", 2000, 20),
    ("fashion-mnist-5", "Fashion-MNIST, 5 tasks of 2 classes", _FASHION, 5, "mlp", 2000, 20),
    ("svhn-5", "SVHN, 5 tasks of 2 classes", "svhn:load", 5, _THIRD, 2000, 20),
    ("svhn10k-5", "10,000 of SVHN's images, 5 tasks of 2 classes; not SVHN", "svhn:load_10k", 5, _THIRD, 500, 20),
    ("svhn10k-5-16px", "the same in 16 x 16 pixels", "svhn:load_10k_16px", 5, _SMALL, 500, 20),
    ("cifar10-5", "CIFAR-10, 5 tasks of 2 classes", _CIFAR10, 5, _THIRD, 2000, 20),
    ("cifar100-2", "CIFAR-100, 2 tasks of 50 classes", _CIFAR100, 2, _THIRD, 2000, 20),
    ("cifar100-5", "CIFAR-100, 5 tasks of 20 classes", _CIFAR100, 5, _THIRD, 2000, 20),
    ("cifar100-10", "CIFAR-100, 10 tasks of 10 classes", _CIFAR100, 10, _THIRD, 2000, 20),
    ("cifar100-10-16px", "CIFAR-100 in 16 x 16 pixels, 10 tasks of 10 classes", _CIFAR100_16, 10, _SMALL, 2000, 20),
    ("cifar100-20", "CIFAR-100, 20 tasks of 5 classes", _CIFAR100, 20, _THIRD, 2000, 20),
    (
        "tiny-imagenet-10",
        "Tiny-ImageNet, all classes there are, in 10 tasks",
        "tiny_imagenet:load",
        10,
        _THIRD,
        2000,
        20,
    ),
    ("imagenet100-10", "ImageNet-100, 10 tasks of 10 classes", _IMAGENET100, 10, "resnet18", 2000, 50),
    ("imagenet1k-10", "ImageNet, 10 tasks of 100 classes", _IMAGENET1K, 10, "resnet18", 20_000, 100),
    ("celeb10k-10", "faces of 10,000 people, 10 tasks of 1,000", "celeb:load", 10, "resnet18", 50_000, 20),
)
FOLDER = "folder:"

BENCHMARKS: dict[str, Benchmark] = {
    name: Benchmark(name, summary, f"itaml.data.sources.{source}", tasks=tasks, model=model, memory=memory, p=p)
    for name, summary, source, tasks, model, memory, p in _TABLE
}


def benchmark(name: str) -> Benchmark:
    """Return the benchmark called `name`; `folder:PATH` is the one of a folder of class folders.

    Raises:
        UnknownNameError: there is none; the message offers the nearest name.
        SettingsError: `folder:` without a path.
    """
    if name.startswith(FOLDER):
        return _folder(name)
    if name not in BENCHMARKS:
        raise UnknownNameError(unknown("benchmark", name, (*BENCHMARKS, f"{FOLDER}PATH")))
    return BENCHMARKS[name]


def _folder(name: str) -> Benchmark:
    where = name.removeprefix(FOLDER)
    if not where:
        raise SettingsError(f"name the folder of class folders: {FOLDER}PATH")
    elsewhere = is_url(where)
    return Benchmark(
        name,
        f"the class folders in {where}, in 5 tasks, or as many as there are classes",
        "itaml.data.sources.remote:load" if elsewhere else "itaml.data.sources.folder:load",
        tasks=5,
        model=_THIRD,
        memory=2000,
        p=20,
        url=where if elsewhere else "",
        path=None if elsewhere else Path(where).expanduser(),
    )


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
    if split is not None:
        sizes: Sequence[int] | int = split
    else:
        named = benchmark.path is None and not benchmark.url
        sizes = benchmark.tasks if named else min(benchmark.tasks, len(classes))
    return TaskStream(dataset, split_classes(classes, sizes=sizes, order_seed=order_seed))
