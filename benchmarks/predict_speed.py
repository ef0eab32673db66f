"""How fast `ImageClassifier.predict` names image files.

Against a bare forward pass over the same images decoded before.

    python benchmarks/predict_speed.py [--images 1000] [--threads 2]

ResNet-18(1/3), 32 x 32 images in files. Both are timed in turn, several times in one run; the median of the ratios is
what counts, on the clock, and in CPU time, which holds on a machine that is busy with other things as well.
Loading the model is apart from both. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from itaml.learners.learner import GradientLearner
from itaml.modelstore.image_classifier import ImageClassifier
from itaml.modelstore.predictions import BATCH, prepare_inputs

SIDE = 32


def write(folder: Path, images: int) -> list[Path]:
    draw = np.random.default_rng(0)
    files = []
    for number in range(images):
        place = folder / f"class {number % 4}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(draw.integers(0, 255, (6, 6, 3), dtype=np.uint8))
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(place / f"{number}.jpg")
        files.append(place / f"{number}.jpg")
    return files


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the clock and the CPU seconds of all threads."""
    start = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main(images: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder) / "images", images)
        few = Path(folder) / "few"
        for file in files[:64]:
            (few / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, few / file.parent.name)
        made = ImageClassifier.create(
            Path(folder) / "model", backbone="resnet18-third", image_size=SIDE, epochs=1, device="cpu"
        )
        made.learn(few)
        classifier = ImageClassifier.open(Path(folder) / "model", device="cpu")
        learner = classifier._model.learner
        assert isinstance(learner, GradientLearner)
        network = learner.model.eval()
        decoded = prepare_inputs(classifier._model, files).images.load()[0]

        def bare() -> None:
            with torch.no_grad():
                for start in range(0, len(decoded), BATCH):
                    network(decoded[start : start + BATCH])

        times = [(seconds(bare), seconds(lambda: classifier.predict(files))) for _ in range(rounds + 1)][1:]
    ratios = {
        name: [round(forward[kind] / whole[kind], 3) for forward, whole in times]
        for kind, name in enumerate(("clock", "CPU"))
    }
    return {
        "images": images,
        "threads": torch.get_num_threads(),
        "forward_seconds": round(min(forward[0] for forward, _ in times), 3),
        "predict_seconds": round(min(whole[0] for _, whole in times), 3),
        "ratio": {name: sorted(values)[len(values) // 2] for name, values in ratios.items()},
        "ratios": ratios,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    print(json.dumps(main(given.images, given.rounds), indent=1))
