"""Kill the service with SIGKILL while it learns, start it again: the job is done completely, and once.

    python benchmarks/serve_kills.py [--trials 50]

A trial copies a small model, starts the service, sends images of a new class and kills the service at a moment between
the upload and the end of the learn, in every other trial after the learning process has begun with the images; in two
of four trials that process is killed too, and in every fifth the service is killed a second time. The next service has
to finish the job: the model has one version more, learned from every image once, all files are good, and it predicts
what a model predicts that learned without being disturbed.
Prints JSON, and writes it with --output.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from serve_process import ServiceProcess
from sklearn.datasets import load_digits

from itaml.modelstore.image_classifier import ImageClassifier

NEW = "digit 4"


def files(label: int, count: int, skip: int = 0) -> list[bytes]:
    """Return images of a digit as PNG files."""
    raw = load_digits()
    found = []
    for row in np.flatnonzero(raw.target == label)[skip : skip + count]:
        buffer = io.BytesIO()
        Image.fromarray((raw.images[row] * 255 / 16).round().astype(np.uint8)).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


def make(path: Path) -> None:
    """Make a model of four digits that learns by gradient steps."""
    classifier = ImageClassifier.create(path, backbone="mlp", image_size=8, memory=200, epochs=30)
    images = [Image.open(io.BytesIO(data)) for label in range(4) for data in files(label, 20)]
    classifier.learn(images, [f"digit {label}" for label in range(4) for _ in range(20)])


def state(path: Path) -> dict[str, Any]:
    """Return what must be the same however often the service was killed."""
    classifier = ImageClassifier.open(path)
    learns = classifier.info()["learns"]
    images = [Image.open(io.BytesIO(data)) for label in range(5) for data in files(label, 10, skip=60)]
    return {
        "version": classifier.version,
        "classes": list(classifier.classes),
        "learns": [learn["images"] for learn in learns],
        "predictions": [(one.label, round(one.confidence, 5)) for one in classifier.predict(images)],
        "problems": classifier.verify(),
    }


def learner_of(service: ServiceProcess) -> int | None:
    """Return the process id of the learning process, None if there is none."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(service.process.pid)], capture_output=True, text=True, check=False
    ).stdout
    lines = [line.split(None, 1) for line in found.splitlines() if "itaml.serve.learn_job" in line]
    return int(lines[0][0]) if lines else None


def wait_for_images(service: ServiceProcess, job: str) -> float:
    """Wait until a job has begun with its images; return the time of that moment."""
    while (found := service.get(f"/v1/jobs/{job}"))["phase"] == "staging" and found["state"] in ("queued", "running"):
        time.sleep(0.02)
    return time.monotonic()


def trial(model: Path, number: int, draw: random.Random, times: tuple[float, float], images: list[bytes]) -> str:
    """Kill once or twice; return the phase in which the first kill came."""
    service = ServiceProcess(model)
    service.ready()
    job = service.learn(images, NEW)["id"]
    whole, rest = times
    if number % 2:
        wait_for_images(service, job)
    time.sleep(draw.uniform(0, rest if number % 2 else whole))
    phase = f"{(found := service.get(f'/v1/jobs/{job}'))['state']}: {found['phase']}"
    learner = learner_of(service)
    if number % 4 > 1 and learner is not None:
        os.kill(learner, signal.SIGKILL)
    service.kill()
    if number % 5 == 4:
        service = ServiceProcess(model)
        service.ready()
        time.sleep(draw.uniform(0, whole))
        service.kill()
    service = ServiceProcess(model)
    service.ready()
    done = service.wait(job)
    code = service.stop()
    if done["state"] != "done" or done["result"]["new_classes"] != [NEW]:
        raise AssertionError(f"the job is {done}")
    assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), f"the service ended with code {code}"
    return phase


def run(trials: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Return how the trials ended."""
    draw, original, images = random.Random(seed), folder / "original", files(4, 20)
    make(original)
    undisturbed = Path(shutil.copytree(original, folder / "undisturbed"))
    service = ServiceProcess(undisturbed)
    service.ready()
    start = time.monotonic()
    job = service.learn(images, NEW)["id"]
    begun = wait_for_images(service, job)
    service.wait(job)
    times = 0.8 * (time.monotonic() - start), time.monotonic() - begun
    service.stop()
    expected = state(undisturbed)
    failures, phases = [], dict[str, int]()
    for number in range(trials):
        model = Path(shutil.copytree(original, folder / "models" / "killed"))
        try:
            phase = trial(model, number, draw, times, images)
            phases[phase] = phases.get(phase, 0) + 1
            found = state(model)
            if found != expected:
                failures.append(f"trial {number}: {json.dumps(found)[:500]} instead of {json.dumps(expected)[:500]}")
        except (AssertionError, RuntimeError, OSError) as error:
            failures.append(f"trial {number}: {error}")
        shutil.rmtree(folder / "models")
        print(f"{number + 1} of {trials}, {len(failures)} failures", file=sys.stderr, flush=True)
    return {"trials": trials, "failures": failures, "killed_in": dict(sorted(phases.items()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.trials, Path(folder), given.seed)
    print(json.dumps(found, indent=1))
    if given.output is not None:
        known = json.loads(given.output.read_text()) if given.output.exists() else {}
        given.output.write_text(json.dumps({**known, "kills": found}, indent=1) + "\n")
    sys.exit(bool(found["failures"]))


if __name__ == "__main__":
    main()
