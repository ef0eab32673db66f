"""Accuracy of the product on photos: `ImageClassifier` with its defaults, class by class over several learns.

    python benchmarks/photos_product.py --data FOLDER [--sets clothing-10 grocery-81]

FOLDER holds `SET/train/CLASS/*` and `SET/test/CLASS/*`. Each held-out photo is predicted alone after every learn. The
classes are then learned in the reverse order, and the predictions compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from photos_common import write

from itaml import ImageClassifier

LEARNS = {"clothing-10": 2, "grocery-81": 9}


def files_of(root: Path, names: list[str]) -> list[str]:
    return [str(file) for name in names for file in sorted((root / name).iterdir())]


def parts(names: list[str], learns: int) -> list[list[str]]:
    return [names[len(names) * n // learns : len(names) * (n + 1) // learns] for n in range(learns)]


def correct(classifier: ImageClassifier, root: Path, names: list[str]) -> list[bool]:
    found = classifier.predict(files_of(root, names))
    return [prediction.top[0][0] == Path(prediction.file or "").parent.name for prediction in found]


def learned(path: Path, root: Path, groups: list[list[str]]) -> tuple[ImageClassifier, list[list[float]], list[float]]:
    """Return the model, the accuracy of every task after every learn, and the seconds of each learn."""
    classifier, history, seconds = ImageClassifier.create(path), [], []
    for number, group in enumerate(groups):
        start = time.perf_counter()
        files = files_of(root / "train", group)
        classifier.learn(files, [Path(file).parent.name for file in files])
        seconds.append(time.perf_counter() - start)
        rows = [correct(classifier, root / "test", old) for old in groups[: number + 1]]
        history.append([sum(row) / len(row) for row in rows])
    return classifier, history, seconds


def measure(root: Path, learns: int) -> dict[str, Any]:
    names = sorted(folder.name for folder in (root / "train").iterdir())
    groups = parts(names, learns)
    with tempfile.TemporaryDirectory() as folder:
        classifier, history, seconds = learned(Path(folder) / "model", root, groups)
        right = correct(classifier, root / "test", names)
        info = classifier.info()
        other, _, _ = learned(Path(folder) / "reversed", root, [group[::-1] for group in groups[::-1]])
        first, second = (model.predict(files_of(root / "test", names)) for model in (classifier, other))
    best = [max(row[task] for row in history[task:]) for task in range(learns)]
    return {
        "class accuracy, each photo alone": sum(right) / len(right),
        "forgetting": sum(best[task] - history[-1][task] for task in range(learns - 1)) / max(learns - 1, 1),
        "accuracy of each task after each learn": history,
        "same predictions in the reverse order": sum(
            a.top[0][0] == b.top[0][0] for a, b in zip(first, second, strict=True)
        )
        / len(first),
        "method": info["method"],
        "backbone": info["backbone"],
        "bytes on disk, two versions": info["bytes"],
        "exemplars": info["exemplars"],
        "seconds of each learn, features partly cached": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=list(LEARNS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for name in options.sets:
        results[name] = measure(options.data / name, LEARNS[name])
        print(name, {key: value for key, value in results[name].items() if not isinstance(value, list)}, flush=True)
        write("product", {"learns": LEARNS, "threads": 1}, results)


if __name__ == "__main__":
    main()
