"""Choose the ingredients for a model on disk that is trained from scratch, on images that were held out of training.

usage: python benchmarks/store_recipe.py [--seeds 0,1,2]

Learns the digits of scikit-learn through `ImageClassifier` in five learns of two classes with a memory of 100, on three
quarters of the images, and predicts the others, each alone. Writes benchmarks/results/store-recipe.json.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from timing import write

from itaml import ImageClassifier

MEMORY, CLASSES_PER_LEARN = 100, 2
PAPER: dict[str, Any] = {"selection": "random", "class_balancing": "tasks", "distill": 0.0}
BALANCED: dict[str, Any] = {**PAPER, "class_balancing": "logits"}
TRIALS: dict[str, dict[str, Any]] = {
    "mean over tasks": PAPER,
    "mean over tasks, herding": {**PAPER, "selection": "herding"},
    "balanced logits": BALANCED,
    "balanced logits, distillation": {**BALANCED, "distill": 1.0},
    "balanced logits, distillation, herding": {**BALANCED, "distill": 1.0, "selection": "herding"},
}


def accuracy(settings: dict[str, Any], seed: int) -> float:
    """Return the share of held-out images that are named rightly after the last learn."""
    digits = load_digits()
    images, labels = (digits.images * 255 / 16).round().astype(np.uint8), digits.target
    order = np.random.default_rng(seed).permutation(len(images))
    learned, held_out = np.split(order, [len(order) * 3 // 4])
    with tempfile.TemporaryDirectory() as folder:
        model = ImageClassifier.create(
            Path(folder) / "digits", method="itaml", memory=MEMORY, seed=seed, settings=settings
        )
        for first in range(0, 10, CLASSES_PER_LEARN):
            rows = learned[np.isin(labels[learned], range(first, first + CLASSES_PER_LEARN))]
            model.learn(images[rows], [str(label) for label in labels[rows]])
        predicted = model.predict(images[held_out], unknown="never")
    return fmean(one.top[0][0] == str(label) for one, label in zip(predicted, labels[held_out], strict=True))


def main() -> None:
    """Run all trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    torch.set_num_threads(1)
    found = {}
    for name, settings in TRIALS.items():
        found[name] = {"settings": settings, "class@1": [accuracy(settings, seed) for seed in seeds]}
        print(name, found[name]["class@1"], flush=True)
    write("store-recipe", {"memory": MEMORY, "seeds": seeds, "trials": found})


if __name__ == "__main__":
    main()
