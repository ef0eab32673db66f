"""How fast `Library.predict` names picture files, against a bare forward pass over the same pictures decoded before.

    python benchmarks/predict_speed.py [--pictures 1000] [--threads 2]

ResNet-18(1/3), 32 x 32 pictures in files. Both are timed in turn, several times in one run; the median of the ratios is
what counts, on the clock, and in processor time, which holds on a machine that is busy with other things as well.
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

from itaml.library.answers import BATCH, prepare
from itaml.library.library import Library

SIDE = 32


def write(folder: Path, pictures: int) -> list[Path]:
    draw = np.random.default_rng(0)
    files = []
    for number in range(pictures):
        place = folder / f"class {number % 4}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(draw.integers(0, 255, (6, 6, 3), dtype=np.uint8))
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(place / f"{number}.jpg")
        files.append(place / f"{number}.jpg")
    return files


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the clock and the processor seconds of all threads."""
    start = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main(pictures: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder) / "pictures", pictures)
        few = Path(folder) / "few"
        for file in files[:64]:
            (few / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, few / file.parent.name)
        made = Library.create(
            Path(folder) / "model", backbone="resnet18-third", image_size=SIDE, epochs=1, device="cpu"
        )
        made.learn(few)
        library = Library.open(Path(folder) / "model", device="cpu")
        learner = library._model.learner
        assert learner is not None
        network = learner.model.eval()
        decoded = prepare(library._model, files).images.load()[0]

        def bare() -> None:
            with torch.no_grad():
                for start in range(0, len(decoded), BATCH):
                    network(decoded[start : start + BATCH])

        times = [(seconds(bare), seconds(lambda: library.predict(files))) for _ in range(rounds + 1)][1:]
    ratios = {
        name: [round(forward[kind] / whole[kind], 3) for forward, whole in times]
        for kind, name in enumerate(("clock", "processor"))
    }
    return {
        "pictures": pictures,
        "threads": torch.get_num_threads(),
        "forward_seconds": round(min(forward[0] for forward, _ in times), 3),
        "predict_seconds": round(min(whole[0] for _, whole in times), 3),
        "ratio": {name: sorted(values)[len(values) // 2] for name, values in ratios.items()},
        "ratios": ratios,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    print(json.dumps(main(given.pictures, given.rounds), indent=1))
