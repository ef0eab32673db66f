"""Ten thousand classes in tasks of a thousand, end to end from image files.

usage: python benchmarks/ten_thousand.py [--classes 10000] [--tasks 10] [--memory 50000] [--threads 2]

Makes a folder of tiny images (each class a pattern of 16 coloured squares under noise), runs `itaml run` on it with an
MLP, and writes benchmarks/results/ten-thousand.json: accuracies, the seconds of each task's training and of its
evaluation, and the largest resident memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from timing import write

SIDE, TRAIN, TEST = 8, 6, 2


def make_images(root: Path, classes: int) -> None:
    """Write `root/train/CLASS/N.png` and `root/test/CLASS/N.png`."""
    draw = np.random.default_rng(0)
    for number in range(classes):
        pattern = draw.integers(0, 256, (4, 4, 3))
        for part, count in (("train", TRAIN), ("test", TEST)):
            place = root / part / f"{number:05}"
            place.mkdir(parents=True)
            for index in range(count):
                noisy = np.clip(pattern + draw.normal(0, 20, pattern.shape), 0, 255).astype(np.uint8)
                Image.fromarray(noisy).resize((SIDE, SIDE), Image.Resampling.NEAREST).save(place / f"{index}.png")


def run(images: Path, folder: Path, *, classes: int, tasks: int, memory: int, threads: int) -> None:
    split = ",".join([str(classes // tasks)] * tasks)
    settings = {"backbone": "mlp", "memory": memory, "epochs": 3, "batch_size": 128, "augment": "none", "warmup": 0.0}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = ["run", f"folder:{images}", "--split", split, "--image-size", str(SIDE), "--threads", str(threads)]
    subprocess.run([sys.executable, "-m", "itaml", *command, *words, "--out", str(folder)], check=True)


def summary(folder: Path) -> dict[str, Any]:
    """Return the numbers of the run, with the seconds between a task's last epoch and its row: its evaluation."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    evaluating, trained = [], 0.0
    for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "EpochDone":
            trained = event["time"]
        if event["event"] == "TaskDone":
            evaluating.append(round(event["time"] - trained, 2))
    rows = result["tasks"]
    return {
        "settings": result["config"]["settings"],
        "final": {name: value for name, value in result["final"].items() if name != "per_class"},
        "classes": sum(len(row["classes"]) for row in rows),
        "train_seconds": [row["train_seconds"] for row in rows],
        "memory_and_evaluation_seconds": evaluating,
        "peak_memory_mb": max(row["peak_memory_mb"] for row in rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--memory", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        images, folder = Path(place) / "images", Path(place) / "run"
        make_images(images, given.classes)
        run(images, folder, **vars(given))
        print(write("ten-thousand", summary(folder)))


if __name__ == "__main__":
    main()
