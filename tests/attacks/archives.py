"""Hostile data files: idx, MATLAB and tar files are refused in one sentence, soon, and with little memory."""

from __future__ import annotations

import io
import pickle
import random
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from attacks.archive_makers import IDX, MAT, TAR, TAR_PYTHON, Write, holding, hostile_files, idx, tar
from attacks.harness import Tally, isolated, spread
from attacks.pickles import good, mutated
from itaml.data.benchmarks import LoadOptions
from itaml.data.sources import cifar, mnist, svhn
from itaml.data.stream import Dataset

Load = Callable[[LoadOptions], Dataset]


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Load each hostile file, and then good ones with random bytes changed."""
    tally = Tally()
    known = spread(list(hostile_files()), trials)
    sound = {path: (folder / "good" / path).read_bytes() for path in write_good(folder / "good")}
    for number in range(trials):
        if number < len(known):
            name, path, write = known[number]
        else:
            path = draw.choice(sorted(sound))
            name, write = f"{path}, changed", holding(mutated(sound[path], draw))
        root = folder / str(number)
        prepare_folder(root, path, write)
        ended = isolated(lambda path=path, root=root: load(path, root))  # type: ignore[misc]
        wrong = "it was read" if ended.how == "value" and number < len(known) else ended.wrong()
        tally.add(name, wrong, ended.how)
        shutil.rmtree(root)
    return tally


def load(path: str, root: Path) -> str:
    """Load the data set that a path belongs to, and use all of it."""
    kind: Load = mnist.load if path.startswith("MNIST") else svhn.load if path == MAT else cifar.load_100
    dataset = kind(LoadOptions(root=root))
    for part in (dataset.train, dataset.test):
        assert int(part.load()[0].long().sum()) >= 0
        assert all(0 <= label < len(dataset.class_names) for label in part.labels.tolist())
    return "read"


def prepare_folder(root: Path, path: str, write: Write) -> None:
    """Write a data root that is good but for one file."""
    (root / path).parent.mkdir(parents=True)
    for name, data in good_files(path).items():
        if name not in (path, path.removesuffix(".gz")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
    write(root / path)


def good_files(path: str) -> dict[str, bytes]:
    """Return the files of the data set that a path belongs to, but for archives, which are one file."""
    if path.startswith("MNIST"):
        images, labels = idx((2, 3, 3), bytes(18)), idx((2,), b"\0\1")
        part = {f"{path_of(IDX, which)}": images for which in ("train", "t10k")}
        return part | {path_of(IDX, which).replace("images-idx3", "labels-idx1"): labels for which in ("train", "t10k")}
    if path == MAT:
        return {MAT.replace("train", which): matlab_bytes() for which in ("train", "test")}
    if path.startswith("cifar-100-binary/"):
        return {f"cifar-100-binary/{which}.bin": bytes(3074) for which in ("train", "test")}
    if path.startswith("cifar-100-python/"):
        return {f"cifar-100-python/{which}": good() for which in ("train", "test")}
    return {}


def path_of(path: str, which: str) -> str:
    """Return an idx path of the training or the test part."""
    return path.replace("train", which)


def matlab_bytes() -> bytes:
    """Return a small SVHN file."""
    buffer = io.BytesIO()
    arrays = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]], np.uint8)}
    import_module("scipy.io").savemat(buffer, arrays, do_compression=True)
    return buffer.getvalue()


def write_good(root: Path) -> list[str]:
    """Write good files of every kind, to be changed, and return their paths."""
    rows = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0, 99]}
    python = pickle.dumps(rows, protocol=2)
    files = {
        IDX: good_files(IDX)[IDX],
        MAT: matlab_bytes(),
        TAR: tar([(f"{name}.bin", b"0", bytes(3074)) for name in ("train", "test")]),
        TAR_PYTHON: tar([(name, b"0", python) for name in ("train", "test")]),
        "cifar-100-python/train": python,
    }
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return list(files)
