"""Unknown images and calibration on frozen features: half of the classes known, the other half unknown.

    python benchmarks/photos_unknown.py --features FOLDER [--sets clothing-10 ...]

For each seed half of the classes is drawn, LDA and its calibration are fitted to their training images, and test images
of all classes are scored. Reported: AUROC of the weighted sum of signals and of each signal, of the energy and the
largest probability for comparison; the share of known images refused and of unknown ones found at the
threshold that was set by leave-one-out on training images; unknown ones found when exactly 5 % of the known
test images are refused; accuracy and expected calibration error on known test images.

The signals and the penalty on their weights were chosen on training images alone: half of the classes played the
unknown ones, and part of the training images of the others was held out. The weights themselves are fitted to the
training images of each model. `SIMILAR` and `SERIES` of `similar_images` were chosen on training images of
Tiny-ImageNet, CIFAR-100 and clothing-10 and on crops of those; their effect on the test images of grocery-81 was seen
before other values were given up, so that the share of known images refused there is not that of an untouched test set.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from photos_common import SETS, Features, calibration_error, load, share, write
from torch import Tensor

from itaml.inference.unknown import SIGNALS, auroc
from itaml.learners.components.gaussian_classes import GaussianClasses, fit_gaussian_classes
from itaml.learners.components.statistics import collect
from itaml.models.pretraining_classes import pretraining_classes

SELECTION = "signals and penalty chosen on training images; grouping of similar images checked on tests of grocery-81"
PRETRAINING = pretraining_classes("efficientnet-lite0", "sqrt")


def scores_of(model: GaussianClasses, features: Tensor) -> dict[str, Tensor]:
    signals = model.signals(features)
    logits = model.scores(features) / model.temperature
    parts = {name: signals[:, column] for column, name in enumerate(SIGNALS)}
    return {
        "weighted sum of signals": model.detector.score(signals),
        **parts,
        "energy": (logits * model.temperature).logsumexp(1),
        "maximum probability": logits.softmax(1).amax(1),
    }


def trial(data: Features, seed: int) -> dict[str, float]:
    order = torch.from_numpy(np.random.default_rng(seed).permutation(data.classes))
    known = order[: data.classes // 2].sort().values
    column = torch.full((data.classes,), -1)
    column[known] = torch.arange(len(known))
    keep = column[data.train_labels] >= 0
    features, labels = data.train[keep], column[data.train_labels[keep]]
    model = fit_gaussian_classes(collect(features, labels), features, labels, pretraining=PRETRAINING)
    familiar = column[data.test_labels] >= 0
    found = {}
    for name, score in scores_of(model, data.test).items():
        found[f"auroc: {name}"] = auroc(score[familiar], score[~familiar])
    score = model.detector.score(model.signals(data.test))
    found["known refused"] = share(score[familiar] < model.detector.threshold)
    found["strange called unknown"] = share(score[~familiar] < model.detector.threshold)
    found["strange called unknown at 5 % refused"] = share(score[~familiar] < score[familiar].quantile(0.05))
    probabilities = model.probabilities(data.test[familiar])
    columns = column[data.test_labels[familiar]]
    found["accuracy on known"] = share(probabilities.argmax(1) == columns)
    found["calibration error"] = calibration_error(probabilities, columns)
    found["temperature"] = model.temperature
    assert model.detector.weights is not None
    found |= {f"weight: {name}": float(weight) for name, weight in zip(SIGNALS, model.detector.weights, strict=True)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name in options.sets:
        data = load(options.features, SETS[name])
        runs = [trial(data, seed) for seed in range(options.seeds)]
        results[name] = {key: [run[key] for run in runs] for key in runs[0]}  # one value per seed
        print(name, {key: round(float(np.mean(values)), 4) for key, values in results[name].items()}, flush=True)
    sets = {name: vars(SETS[name]) for name in options.sets}
    write(
        "unknown",
        {
            "sets": sets,
            "seeds": options.seeds,
            "backbone": "efficientnet-lite0",
            "refuse": 0.05,
            "selection": SELECTION,
        },
        results,
    )


if __name__ == "__main__":
    main()
