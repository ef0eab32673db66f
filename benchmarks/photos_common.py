"""What the trials on frozen features share: the sets, their features, continua, and result files."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch
from torch import Tensor

import itaml
from itaml.metrics.calibration_error import expected_calibration_error
from itaml.models.features import pool_views

FEATURES = 1280  # the pooled head; the files hold pooled inner layers behind it
RESULTS = Path(__file__).parent / "results" / "photos"


@dataclass(frozen=True)
class PhotoSet:
    """An image set: which file of features, how many tasks, how many training images per class (None: all)."""

    name: str
    size: int
    tasks: int
    per_class: int | None = None


SETS = {
    "clothing-10": PhotoSet("clothing-10", 224, 2),
    "grocery-81": PhotoSet("grocery-81", 224, 9),
    "tiny-imagenet-100": PhotoSet("tiny-imagenet-100", 160, 10, 20),
    "cifar-100": PhotoSet("cifar-100", 128, 10, 40),
}


@dataclass(frozen=True, eq=False)
class Features:
    """Training and test features of a set (n, d) with labels 0..C-1."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor

    @property
    def classes(self) -> int:
        return int(self.train_labels.max()) + 1


def load(folder: Path, photos: PhotoSet, *, mirror: bool = True, view: str = "crop") -> Features:
    """Read the features of a set, pooled over the image and its mirror image."""
    parts: list[Tensor] = []
    for split in ("train", "test"):
        with np.load(folder / f"{photos.name}-{split}-{view}-{photos.size}.npz") as file:
            views = torch.from_numpy(file["features"][:, :, :FEATURES])
            parts += [pool_views(views if mirror else views[:, :1]), torch.from_numpy(file["labels"])]
    train, labels, test, test_labels = parts
    if photos.per_class is not None:
        keep = first_images(labels, photos.per_class)
        train, labels = train[keep], labels[keep]
    return Features(train, labels, test, test_labels)


def first_images(labels: Tensor, count: int) -> Tensor:
    """Return the indices of the first `count` images of each class."""
    return torch.cat([(labels == label).nonzero()[:count, 0] for label in labels.unique()])


def continuum_accuracy(
    log_probabilities: Tensor,
    labels: Tensor,
    task_of_class: Tensor,
    p: int,
    *,
    within: Tensor | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Return class and task accuracy when p images share a task (Algorithm 2 on the posterior mass of each task).

    Args:
        log_probabilities: over all classes (n, classes).
        labels: (n,).
        task_of_class: (classes,).
        p: images per continuum; the last one of a task may be shorter.
        within: scores that name the class inside the found task (n, classes); None takes `log_probabilities`.
        seed: of the order in which images of a task form continua.
    """
    if p == 1 and within is None:
        predicted = log_probabilities.argmax(1)
        return share(predicted == labels), share(task_of_class[predicted] == task_of_class[labels])
    tasks = int(task_of_class.max()) + 1
    mass = torch.stack([log_probabilities[:, task_of_class == task].logsumexp(1) for task in range(tasks)], 1)
    scores = log_probabilities if within is None else within
    generator = torch.Generator().manual_seed(seed)
    right_class, right_task = torch.zeros(len(labels)), torch.zeros(len(labels))
    for task in range(tasks):
        images = (task_of_class[labels] == task).nonzero()[:, 0]
        for part in images[torch.randperm(len(images), generator=generator)].split(p):
            found = int(mass[part].mean(0).argmax())
            outside = task_of_class != found
            predicted = scores[part].masked_fill(outside, -torch.inf).argmax(1)
            right_class[part] = (predicted == labels[part]).float()
            right_task[part] = float(found == task)
    return float(right_class.mean()), float(right_task.mean())


def share(right: Tensor) -> float:
    return float(right.double().mean())


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    confidence, predicted = probabilities.max(1)
    return expected_calibration_error(confidence, predicted == labels)


def perfect_calibration_error(probabilities: Tensor, *, draws: int = 50) -> float:
    """Return the mean calibration error of as many photos if each were right with just the probability that is said."""
    confidence = probabilities.amax(1)
    generator = torch.Generator().manual_seed(0)
    right = torch.rand(draws, len(confidence), generator=generator, dtype=confidence.dtype) < confidence
    return sum(expected_calibration_error(confidence, one) for one in right) / draws


def write(name: str, settings: dict[str, Any], results: Any) -> None:
    """Write a result file with what it was made with."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    versions = {
        "itaml": itaml.__version__, "torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__, "python": platform.python_version(), "machine": platform.machine(),
    }  # fmt: skip
    content = {"settings": settings, "versions": versions, "results": results}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
