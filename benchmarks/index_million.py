"""Index a million image files of a thousand classes and stream the first task: memory, seconds to the first batch.

The files are links to a few images.
usage: python benchmarks/index_million.py [--files N] [--classes N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from itaml.data.benchmarks import LoadOptions, benchmark, build_stream
from itaml.data.image_files import FilePixels
from itaml.data.loader import iterate

IMAGES = 8


def make_tree(root: Path, *, files: int, classes: int) -> None:
    images = root / "images"
    images.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        Image.fromarray(rng.integers(0, 256, (96, 128, 3), dtype=np.uint8)).save(images / f"{number}.jpg")
    for class_number in range(classes):
        folder = root / "tree" / f"n{class_number:08d}"
        folder.mkdir(parents=True)
        for number in range(class_number, files, classes):
            os.symlink(f"../../images/{number % IMAGES}.jpg", folder / f"n{class_number:08d}_{number}.jpg")


def measure(root: Path, *, tasks: int, image_size: int, batch_size: int) -> dict[str, float | int]:
    before = _peak()
    started = time.perf_counter()
    setting = benchmark(f"folder:{root / 'tree'}")
    options = LoadOptions(image_size=image_size)
    classes = len(list((root / "tree").iterdir()))
    stream = build_stream(setting, options, split=[classes // tasks] * tasks)
    indexed = time.perf_counter()
    task, pixels = stream[0], stream.dataset.train.pixels
    assert isinstance(pixels, FilePixels)
    batches = iterate(task.train, torch.arange(len(task.train)), batch_size=batch_size)
    images, _ = next(batches)
    first = time.perf_counter()
    count = len(images) + sum(len(labels) for _, labels in batches)
    done = time.perf_counter()
    return {
        "files": len(stream.dataset.train) + len(stream.dataset.test),
        "classes": classes,
        "first_task_images": count,
        "unreadable": pixels.bad.count,
        "index_seconds": round(indexed - started, 3),
        "seconds_to_first_batch": round(first - started, 3),
        "images_per_second": round(count / (done - indexed), 1),
        "rss_before_mib": round(before, 1),
        "peak_rss_mib": round(_peak(), 1),
    }


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--folder", type=Path, help="where to make the tree; kept. A temporary folder if not given")
    given = parser.parse_args(arguments)
    root = given.folder or Path(tempfile.mkdtemp(prefix="itaml-index-"))
    try:
        if not (root / "tree").exists():
            make_tree(root, files=given.files, classes=given.classes)
        result = measure(root, tasks=given.tasks, image_size=given.image_size, batch_size=given.batch_size)
        print(json.dumps(result))
    finally:
        if given.folder is None:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
