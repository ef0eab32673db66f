"""What one more class costs when few and when many classes are known, up to 1,000, through the product.

    python benchmarks/photos_growth.py prepare FOLDER
    python benchmarks/photos_growth.py measure FOLDER [--rounds 3]

`prepare` draws small photos of coloured tiles with noise and learns models of 10, 100, 300 and 1,000 classes in FOLDER:
20 photos of each of the first 100 classes and 2 of each of the others, with the default memory of 2,000 exemplars.
`measure` adds one class of 20 new photos to each model, undoes it, and repeats that with other classes; the models take
turns. One thread, no cached features; the runtime is opened before. Also reported: what a model of 1,000 classes costs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CACHE = tempfile.mkdtemp(prefix="itaml-growth-")
os.environ["XDG_CACHE_HOME"] = CACHE  # before itaml is imported: features of earlier runs must not help

import numpy as np  # noqa: E402
import torch  # noqa: E402
from photos_common import write  # noqa: E402
from PIL import Image  # noqa: E402

from itaml import ImageClassifier  # noqa: E402

SIZES = (10, 100, 300, 1000)
PHOTOS, FEW = 20, 2  # of the first 100 classes, of the others
TESTED = 200

Times = dict[str, float]


def timed(work: Callable[[], object]) -> Times:
    start = time.process_time(), time.perf_counter()
    work()
    return {"CPU": time.process_time() - start[0], "clock": time.perf_counter() - start[1]}


def draw(home: Path, number: int, count: int) -> list[str]:
    """Write photos of a class: 6 x 6 coloured tiles that are its own, with noise; return the files."""
    folder = home / f"{number:04d}"
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(number)
    tile = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    large = np.asarray(tile.resize((64, 64), Image.Resampling.BICUBIC)).astype(np.float64)
    files = []
    for photo in range(count):
        noisy = (large + generator.normal(0, 20, large.shape)).clip(0, 255).astype(np.uint8)
        files.append(str(folder / f"{photo}.png"))
        Image.fromarray(noisy).save(files[-1])
    return files


def learn(classifier: ImageClassifier, files: list[str]) -> None:
    classifier.learn(files, [Path(file).parent.name for file in files])


def prepare(folder: Path) -> None:
    classifier, have = ImageClassifier.create(folder / "growing"), 0
    for size in SIZES:
        new = [draw(folder / "photos", number, PHOTOS if number < 100 else FEW) for number in range(have, size)]
        learn(classifier, [file for files in new for file in files])
        classifier.save(folder / f"known-{size}")
        have = size
        print(size, classifier.info()["bytes"], flush=True)


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    found: dict[int, list[Times]] = {size: [] for size in SIZES}
    tested = [file for number in range(0, SIZES[-1], SIZES[-1] // TESTED)
              for file in draw(folder / "tested", number, PHOTOS + 1)[-1:]]  # fmt: skip
    bytes_of = {}
    for number in range(rounds):
        files = draw(folder / "added", SIZES[-1] + number, PHOTOS)
        for size in SIZES:
            shutil.rmtree(Path(CACHE) / "itaml" / "features", ignore_errors=True)
            classifier = ImageClassifier.open(folder / f"known-{size}")  # no features in memory
            classifier.predict(tested[:1])  # opens the runtime
            found[size].append(timed(lambda: learn(classifier, files)))  # noqa: B023
            bytes_of[size] = classifier.info()["bytes"]
            classifier.rollback()
    opened: list[ImageClassifier] = []
    opening = timed(lambda: opened.append(ImageClassifier.open(folder / f"known-{SIZES[-1]}")))
    predicting = timed(lambda: opened[0].predict(tested))
    right = sum(p.top[0][0] == Path(p.file or "").parent.name for p in opened[0].predict(tested))
    medians = {size: {kind: statistics.median(one[kind] for one in times) for kind in ("CPU", "clock")}
               for size, times in found.items()}  # fmt: skip
    return {
        "seconds to add a class of 20 photos": {str(size): medians[size] for size in SIZES},
        "relative to 10 classes, CPU": {str(n): medians[n]["CPU"] / medians[10]["CPU"] for n in SIZES},
        "rounds": {str(size): times for size, times in found.items()},
        "bytes on disk, two versions": {str(size): value for size, value in bytes_of.items()},
        "1,000 classes": {"seconds to open": opening, f"seconds to predict {TESTED} photos": predicting,
                          f"right of {TESTED} photos": right},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.action == "prepare":
        prepare(options.folder)
        return
    results = measure(options.folder, options.rounds)
    print({key: value for key, value in results.items() if key != "rounds"})
    write("growth", {"threads": 1, "photos": [PHOTOS, FEW], "rounds": options.rounds}, results)


if __name__ == "__main__":
    main()
