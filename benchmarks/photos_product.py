"""Accuracy of the product on photos: `ImageClassifier` with its defaults, class by class over several learns.

    python benchmarks/photos_product.py --data FOLDER [--sets clothing-10 grocery-81]

FOLDER holds `SET/train/CLASS/*` and `SET/test/CLASS/*`. Each held-out photo is predicted alone after every learn. The
classes are then learned in the reverse order, and the predictions compared. Forgetting is the fall of a task's accuracy
from its best value to its value after the last learn, averaged over all tasks but the last; once among all classes, and
once among the classes that were known when the task was learned, so that more classes to choose from do not count. At
the end p = 20 photos that share a task are predicted together.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from photos_common import RESULTS, write

from itaml import ImageClassifier
from itaml.metrics.calibration_error import expected_calibration_error
from itaml.modelstore.predictions import ImagePrediction

LEARNS = {"clothing-10": 2, "grocery-81": 9}
P = 20


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, the accuracy of every task after every learn, the same among fewer classes, and the seconds."""

    classifier: ImageClassifier
    history: list[list[float]]
    among: list[list[float]]
    seconds: list[float]


def files_of(root: Path, names: list[str]) -> list[str]:
    return [str(file) for name in names for file in sorted((root / name).iterdir())]


def parts(names: list[str], learns: int) -> list[list[str]]:
    return [names[len(names) * n // learns : len(names) * (n + 1) // learns] for n in range(learns)]


def correct(predictions: list[ImagePrediction], among: list[str] | None = None) -> list[bool]:
    """Say of each photo whether its class is the most probable one, of all or among some."""
    first = [next(name for name, _ in found.top if among is None or name in among) for found in predictions]
    return [name == truth(found) for name, found in zip(first, predictions, strict=True)]


def truth(prediction: ImagePrediction) -> str:
    return Path(prediction.file or "").parent.name


def learned(path: Path, root: Path, groups: list[list[str]], *, test: bool = True) -> Learned:
    """Learn one group after the other."""
    classifier, history, among, seconds = ImageClassifier.create(path), [], [], []
    for number, group in enumerate(groups):
        start = time.perf_counter()
        files = files_of(root / "train", group)
        classifier.learn(files, [Path(file).parent.name for file in files])
        seconds.append(time.perf_counter() - start)
        if not test:
            continue
        known = [[name for part in groups[: task + 1] for name in part] for task in range(number + 1)]
        found = classifier.predict(files_of(root / "test", known[-1]), top=len(known[-1]))
        tasks = [[one for one in found if truth(one) in group] for group in groups[: number + 1]]
        history.append([mean(correct(rows)) for rows in tasks])
        among.append([mean(correct(rows, names)) for rows, names in zip(tasks, known, strict=True)])
    return Learned(classifier, history, among, seconds)


def mean(right: list[bool]) -> float:
    return sum(right) / len(right)


def forgetting(history: list[list[float]]) -> float:
    """Return the fall from the best to the last value, averaged over all tasks but the last."""
    old = range(len(history) - 1)
    return sum(max(row[task] for row in history[task:]) - history[-1][task] for task in old) / max(len(old), 1)


def in_continua(classifier: ImageClassifier, root: Path, groups: list[list[str]]) -> tuple[float, float]:
    """Return class and task accuracy when photos of one task are predicted P at a time, in a random order."""
    right, tasks = [], []
    for task, group in enumerate(groups):
        files = files_of(root, group)
        order = torch.randperm(len(files), generator=torch.Generator().manual_seed(0)).tolist()
        for start in range(0, len(files), P):
            found = classifier.predict([files[at] for at in order[start : start + P]], group="all")
            right += correct(found)
            tasks += [one.task == task for one in found]
    return mean(right), mean(tasks)


def measure(root: Path, learns: int) -> dict[str, Any]:
    names = sorted(folder.name for folder in (root / "train").iterdir())
    groups = parts(names, learns)
    with tempfile.TemporaryDirectory() as folder:
        done = learned(Path(folder) / "model", root, groups)
        info = done.classifier.info()
        other = learned(Path(folder) / "reversed", root, [group[::-1] for group in groups[::-1]], test=False)
        first, second = (
            model.predict(files_of(root / "test", names), top=len(names))
            for model in (done.classifier, other.classifier)
        )
        classes, tasks = in_continua(done.classifier, root / "test", groups)
    pairs = list(zip(first, second, strict=True))
    confidence = torch.tensor([one.top[0][1] for one in first], dtype=torch.float64)
    return {
        "class accuracy, each photo alone": mean(correct(first)),
        "class accuracy, p = 20": classes,
        "task accuracy, p = 20": tasks,
        "calibration error": expected_calibration_error(confidence, torch.tensor(correct(first))),
        "known photos called unknown": mean([not one.known for one in first]),
        "forgetting": forgetting(done.history),
        "forgetting among the classes known at the time": forgetting(done.among),
        "accuracy of each task after each learn": done.history,
        "accuracy among the classes known when the task was learned": done.among,
        "same predictions in the reverse order": mean([a.label == b.label for a, b in pairs]),
        "largest difference of a probability in the reverse order": max(
            abs(dict(a.top)[name] - dict(b.top)[name]) for a, b in pairs for name in names
        ),
        "method": info["method"],
        "backbone": info["backbone"],
        "bytes on disk, two versions": info["bytes"],
        "exemplars": info["exemplars"],
        "seconds of each learn, features partly cached": done.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=list(LEARNS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = RESULTS / "product.json"
    results = json.loads(file.read_text())["results"] if file.exists() else {}
    for name in options.sets:
        results[name] = measure(options.data / name, LEARNS[name])
        print(name, {key: value for key, value in results[name].items() if not isinstance(value, list)}, flush=True)
        write("product", {"learns": LEARNS, "threads": 1}, results)


if __name__ == "__main__":
    main()
