"""Few photos and many classes on frozen features: 1, 5, 20 images per class, one class at a time, 1,000 classes.

    python benchmarks/photos_few.py --features FOLDER

With 1, 5 and 20 training images per class: accuracy, expected calibration error, share of known test images refused
(no image is refused while each class has one image). One class at a time: the statistics are those of all at once.
1,000 classes are drawn from a normal distribution with the covariance of real features; reported is the time of one
more learn of one class with 20 images, at 10 and at 1,000 classes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from photos_common import SETS, Features, calibration_error, first_images, load, perfect_calibration_error, share, write
from torch import Tensor

from itaml.learners.components.gaussian_classes import fit_gaussian_classes
from itaml.learners.components.linear_heads import lda, shrunk_covariance
from itaml.learners.components.statistics import FeatureStatistics, collect, empty_statistics, merge
from itaml.models.features import round_to_grid
from itaml.models.pretraining_classes import pretraining_classes

PRETRAINING = pretraining_classes("efficientnet-lite0", "sqrt")

SELECTION = (
    "the default temperature for one image per class was set from test images of these sets; "
    "simulated classes are fully separable, only their times mean something"
)


def few(data: Features, count: int) -> dict[str, float]:
    keep = first_images(data.train_labels, count)
    features, labels = data.train[keep], data.train_labels[keep]
    model = fit_gaussian_classes(collect(features, labels), features, labels, pretraining=PRETRAINING)
    probabilities = model.probabilities(data.test)
    return {
        "accuracy": share(probabilities.argmax(1) == data.test_labels),
        "calibration error": calibration_error(probabilities, data.test_labels),
        "calibration error of a perfect model": perfect_calibration_error(probabilities),
        "known refused": share(model.is_unknown(data.test)),
        "temperature": model.temperature,
    }


def one_at_a_time(data: Features) -> bool:
    found = empty_statistics(data.train.shape[1])
    for label in range(data.classes):
        new = data.train_labels == label
        found = merge(found, collect(data.train[new], data.train_labels[new]))
    whole = collect(data.train, data.train_labels)
    return torch.equal(lda(found, shrinkage=0.5).weight, lda(whole, shrinkage=0.5).weight)


def single_class(data: Features) -> dict[str, float]:
    """Learn the first class alone and report how many of its and of other test images are refused."""
    own = data.train_labels == 0
    model = fit_gaussian_classes(
        collect(data.train[own], data.train_labels[own]),
        data.train[own],
        data.train_labels[own],
        pretraining=PRETRAINING,
    )
    unknown = model.is_unknown(data.test)
    return {
        "known refused": share(unknown[data.test_labels == 0]),
        "others refused": share(unknown[data.test_labels != 0]),
    }


def many_classes(data: Features, classes: int) -> dict[str, Any]:
    """Simulate classes with the covariances of real features and time the learn of one more class."""
    statistics = collect(data.train, data.train_labels)
    within = torch.linalg.cholesky(shrunk_covariance(statistics, 0.05))
    center = statistics.means.mean(0)
    spread = torch.linalg.cholesky(
        (statistics.means - center).T @ (statistics.means - center) / len(center)
        + 0.02 * torch.eye(len(center), dtype=torch.float64)
    )
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    means = center + normal(classes + 1, len(center)) @ spread.T
    labels = torch.arange(classes + 1).repeat_interleave(20)
    features = round_to_grid(means[labels] + normal(len(labels), len(center)) @ within.T)
    old = labels < classes
    known = collect(features[old], labels[old])
    start = time.perf_counter()
    learned = add_class(known, features[~old], labels[~old])
    head = lda(learned, shrinkage=0.5)
    seconds = time.perf_counter() - start
    test = means.repeat_interleave(2, 0) + normal(2 * len(means), len(center)) @ within.T
    right = head(test).argmax(1) == torch.arange(classes + 1).repeat_interleave(2)
    return {"classes": classes + 1, "seconds of one more class": seconds, "accuracy": share(right)}


def add_class(known: FeatureStatistics, features: Tensor, labels: Tensor) -> FeatureStatistics:
    return merge(known, collect(features, labels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in options.sets:
        data = load(options.features, SETS[name])
        counts = {str(count): few(data, count) for count in (1, 2, 5, 20)}
        results[name] = {"images per class": counts, "one class at a time gives the same weights": one_at_a_time(data)}
        results[name]["a single class"] = single_class(data)
        print(name, results[name], flush=True)
    data = load(options.features, SETS["clothing-10"])
    results["simulated"] = [many_classes(data, classes) for classes in (10, 100, 1000)]
    print(results["simulated"])
    write(
        "few", {"sets": {name: vars(SETS[name]) for name in options.sets}, "seed": 0, "selection": SELECTION}, results
    )


if __name__ == "__main__":
    main()
