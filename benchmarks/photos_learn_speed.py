"""Seconds of learns and predictions of photos, beside a bare loop that decodes each photo and runs the backbone.

    python benchmarks/photos_learn_speed.py --data FOLDER [--parts learn predict disk] [--rounds 3]

FOLDER holds `grocery-81/train/CLASS/*` and `clothing-10/train/CLASS/*`. One thread, no cached features. The bare loop
decodes each photo once, at the same size, and runs the same runtime (ONNX Runtime where it is installed) once for each
view, in batches of the same size. It takes turns with the product; the ratio is the median of the rounds', in CPU time
and on the clock. Starting Python, loading the weights and the export to ONNX come before and are told apart. Each part
replaces its own results in `results/photos/learn-speed.json`. With `ITAML_RUNTIME=torch` both are computed by torch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CACHE = tempfile.mkdtemp(prefix="itaml-speed-")
os.environ["XDG_CACHE_HOME"] = CACHE  # before itaml is imported: features of earlier runs must not help

import numpy as np  # noqa: E402
import torch  # noqa: E402
from photos_common import RESULTS, write  # noqa: E402
from PIL import Image  # noqa: E402

from itaml import ImageClassifier  # noqa: E402
from itaml.data.decoding import decode  # noqa: E402
from itaml.models.features import CPU_BATCH, FeatureExtractor, open_extractor  # noqa: E402

PER_CLASS = 20
BACKBONE = "efficientnet-lite0"
LIMIT = 60_000_000  # bytes of a model of 100 classes with two versions

Times = dict[str, float]


def timed(work: Callable[[], object]) -> Times:
    start = time.process_time(), time.perf_counter()
    work()
    return {"CPU": time.process_time() - start[0], "clock": time.perf_counter() - start[1]}


def forget_features() -> None:
    shutil.rmtree(Path(CACHE) / "itaml" / "features", ignore_errors=True)


def photos(root: Path, names: list[str]) -> list[str]:
    return [str(file) for name in names for file in sorted((root / name).iterdir())[:PER_CLASS]]


def class_names(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.iterdir())


def learn(classifier: ImageClassifier, files: list[str]) -> None:
    classifier.learn(files, [Path(file).parent.name for file in files])


def bare_loop(extractor: FeatureExtractor, files: list[str]) -> None:
    for start in range(0, len(files), CPU_BATCH):
        pixels = np.stack([decode(file, size=extractor.extraction.size) for file in files[start : start + CPU_BATCH]])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
        for view in (images, images.flip(3)):
            extractor.running.features(view)


def ratios(rounds: list[tuple[Times, Times]]) -> dict[str, Any]:
    """Return the medians of first over second, and all times."""
    found = {kind: statistics.median(a[kind] / b[kind] for a, b in rounds) for kind in ("CPU", "clock")}
    return {"ratio": found, "rounds": [{"first": a, "second": b} for a, b in rounds]}


def measure_learn(data: Path, folder: Path, extractor: FeatureExtractor, rounds: int) -> dict[str, Any]:
    root = data / "grocery-81" / "train"
    files, found = photos(root, class_names(root)[:10]), []
    for number in range(rounds):
        forget_features()
        bare = timed(lambda: bare_loop(extractor, files))
        classifier = ImageClassifier.create(folder / f"learn-{number}")
        found.append((timed(lambda: learn(classifier, files)), bare))  # noqa: B023
    return {"photos": len(files), "classes": 10, "first": "learn", "second": "bare loop", **ratios(found)}


def measure_predict(data: Path, folder: Path, extractor: FeatureExtractor, rounds: int) -> dict[str, Any]:
    root = data / "clothing-10"
    classifier = ImageClassifier.create(folder / "predict")
    learn(classifier, photos(root / "train", class_names(root / "train")))
    tested = [str(file) for name in class_names(root / "test") for file in sorted((root / "test" / name).iterdir())]
    found = []
    for number in range(rounds):
        forget_features()
        files = tested[number::rounds]
        bare = timed(lambda: bare_loop(extractor, files))  # noqa: B023
        found.append((bare, timed(lambda: classifier.predict(files))))  # noqa: B023
    return {"photos": len(tested), "first": "bare loop", "second": "predict", **ratios(found)}


def measure_disk(data: Path, folder: Path, extractor: FeatureExtractor, rounds: int) -> dict[str, Any]:
    """Learn 100 classes of 20 photos, the last alone: 91 of the two sets and mirror images of nine of them."""
    classes = {f"{part}/{name}": photos(data / part / "train", [name])
               for part in ("grocery-81", "clothing-10") for name in class_names(data / part / "train")}  # fmt: skip
    for name in list(classes)[:9]:
        home = folder / "mirrored" / name.replace("/", "-")
        home.mkdir(parents=True)
        for number, file in enumerate(classes[name]):
            with Image.open(file) as image:
                image.convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(home / f"{number}.png")
        classes[f"mirrored/{name}"] = [str(file) for file in sorted(home.iterdir())]
    classifier, names = ImageClassifier.create(folder / "hundred"), list(classes)
    for part in (names[:99], names[99:]):
        files = [(file, name) for name in part for file in classes[name]]
        classifier.learn([file for file, _ in files], [name.replace("/", " ") for _, name in files])
    info = classifier.info()
    assert len(info["classes"]) == 100
    assert info["bytes"] < LIMIT, f"a model of 100 classes takes {info['bytes']:,} bytes"
    return {"classes": 100, "versions": len(info["versions_kept"]), "exemplars": info["exemplars"],
            "bytes on disk": info["bytes"], "limit": LIMIT}  # fmt: skip


PARTS: dict[str, Callable[[Path, Path, FeatureExtractor, int], dict[str, Any]]] = {
    "learn": measure_learn,
    "predict": measure_predict,
    "disk": measure_disk,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "learn-speed.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    loading = timed(lambda: open_extractor(BACKBONE))
    extractor = open_extractor(BACKBONE)
    exporting = timed(lambda: extractor(torch.zeros(1, 3, 224, 224, dtype=torch.uint8)))
    for part in options.parts:
        name = part if extractor.runtime == "onnx" else f"{part}, {extractor.runtime}"
        with tempfile.TemporaryDirectory() as folder:
            results[name] = PARTS[part](options.data, Path(folder), extractor, options.rounds)
        results[name] |= {"runtime": extractor.runtime}
        print(name, {key: value for key, value in results[name].items() if key != "rounds"}, flush=True)
        apart = {"loading the weights": loading, "export and first image": exporting}
        write("learn-speed", {"threads": 1, "batch": CPU_BATCH, "size": 224, "not included": apart}, results)
    shutil.rmtree(CACHE, ignore_errors=True)


if __name__ == "__main__":
    main()
