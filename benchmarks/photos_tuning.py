"""Fine-tuning on photos beside frozen features: accuracy and CPU seconds of the product on clothing-10.

    python benchmarks/photos_tuning.py --data FOLDER [--forms frozen-lda ...] [--epochs 3]

FOLDER holds `clothing-10/train/CLASS/*` and `clothing-10/test/CLASS/*`. Twenty photos per class, in two learns of five
classes; every test photo is predicted alone after the second. Each form replaces its own results in
`results/photos/tuning.json`. The epochs are few because a pass through the network and back takes long on a CPU; they
and the rates were not chosen on any data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from photos_common import RESULTS, write

from itaml import ImageClassifier

PER_CLASS = 20
HEAD = {"method": "replay", "backbone": "efficientnet-lite0"}
FORMS: dict[str, dict[str, Any]] = {
    "frozen-lda": {"method": "lda", "backbone": "efficientnet-lite0"},
    "frozen-head": {**HEAD},
    "frozen-adapter": {**HEAD, "settings": {"adapter": 256}},
    "tune-last": {**HEAD, "settings": {"tune": "last", "backbone_lr": 0.005}},
    "tune-all": {**HEAD, "settings": {"tune": "all", "backbone_lr": 0.002}},
}
TRAINED = ("tune-last", "tune-all")  # `--epochs` is for these; frozen features take the product's own number


def files_of(root: Path, names: list[str], limit: int | None = None) -> list[str]:
    return [str(file) for name in names for file in sorted((root / name).iterdir())[:limit]]


def measure(root: Path, form: str, epochs: int) -> dict[str, Any]:
    names = sorted(folder.name for folder in (root / "train").iterdir())
    options = {**FORMS[form], **({"epochs": epochs} if form in TRAINED else {})}
    with tempfile.TemporaryDirectory() as folder:
        classifier, seconds = ImageClassifier.create(Path(folder) / "model", **options), []
        for part in (names[:5], names[5:]):
            files = files_of(root / "train", part, PER_CLASS)
            start = time.process_time()
            classifier.learn(files, [Path(file).parent.name for file in files])
            seconds.append(time.process_time() - start)
        found = classifier.predict(files_of(root / "test", names), unknown="never")
        info = classifier.info()
    right = [prediction.label == Path(prediction.file or "").parent.name for prediction in found]
    return {
        "class accuracy, each photo alone": sum(right) / len(right),
        "test photos": len(right),
        "CPU seconds of each learn": seconds,
        "epochs": [record["epochs"] for record in info["learns"]],
        "settings": {name: info["settings"].get(name) for name in ("tune", "adapter", "lr", "backbone_lr")},
        "bytes on disk": info["bytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "tuning.json"
    results = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else {}
    for form in options.forms:
        results[form] = measure(options.data / "clothing-10", form, options.epochs)
        print(form, results[form], flush=True)
        write("tuning", {"set": "clothing-10", "per class": PER_CLASS, "learns": 2, "threads": 1}, results)


if __name__ == "__main__":
    main()
