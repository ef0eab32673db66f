"""Load on the service: latency, throughput, during a learn, swaps under load, the first prediction, memory.

    python benchmarks/serve_load.py [--output benchmarks/results/serve.json] [--requests 10000]

Everything runs on this machine and ends by itself. The model is `lda` on `efficientnet-lite0`, made of generated
photos; requests hold one JPEG file of 480 x 480 pixels, another one each time, so that no cache of features helps
either side. What is compared is measured in turn, and the median counts: on the clock, and in CPU time of the service,
which holds on a machine that is busy with other things as well (the clients take a part of the cores).
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from serve_client import LoadResult, load, predict_request
from serve_process import ServiceProcess

from itaml.experiment.environment import environment
from itaml.modelstore.image_classifier import ImageClassifier

SIDE, PHOTOS, ROUNDS, SWAPS = 480, 576, 3, 20
EACH = PHOTOS // ROUNDS  # images of a round of `predict`
REQUESTS = {1: 60, 8: 240, 64: 448}  # of a round, by the number of clients


def photo(kind: int, draw: np.random.Generator) -> bytes:
    """Return a photo of coloured shapes in front of noise as a JPEG file."""
    noise = draw.normal(draw.uniform(90, 160), 20, (SIDE // 4, SIDE // 4, 3)).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    pen, size = ImageDraw.Draw(image), int(draw.integers(150, 300))
    left, top = (int(value) for value in draw.integers(10, SIDE - size - 10, 2))
    colour = tuple(int(value) for value in draw.integers(0, 256, 3))
    box = (left, top, left + size, top + size)
    if kind == 0:
        pen.ellipse(box, fill=colour)
    elif kind == 1:
        pen.rectangle(box, fill=colour)
    else:
        pen.polygon([(left, top + size), (left + size, top + size), (left + size // 2, top)], fill=colour)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def write(folder: Path, photos: list[bytes]) -> list[str]:
    """Write photos as files."""
    folder.mkdir(parents=True)
    for number, data in enumerate(photos):
        (folder / f"{number:04d}.jpg").write_bytes(data)
    return sorted(str(path) for path in folder.iterdir())


def ask(service: ServiceProcess, requests: Iterator[bytes], clients: int, until: Callable[[int], bool]) -> LoadResult:
    """Put load on a service."""
    return asyncio.run(load(service.port, requests, clients=clients, until=until))


def throughput(
    service: ServiceProcess, model: Path, warm: list[str], files: list[str], requests: Iterator[bytes]
) -> dict[str, Any]:
    """Compare the service with `ImageClassifier.predict`, which `itaml predict` calls, on the same images."""
    classifier = ImageClassifier.open(model)
    classifier.predict(warm)
    loads: dict[int, list[LoadResult]] = {clients: [] for clients in REQUESTS}
    alone, ratios, cpu_ratios = [], [], []
    for turn in range(ROUNDS):
        many = files[turn * EACH : (turn + 1) * EACH]
        start, cpu = time.perf_counter(), time.process_time()
        classifier.predict(many)
        seconds, cpu = (time.perf_counter() - start) / len(many), (time.process_time() - cpu) / len(many)
        alone.append(seconds)
        for clients, number in REQUESTS.items():
            before = service.cpu_seconds()
            found = ask(service, requests, clients, lambda done, number=number: done >= number)  # type: ignore[misc]
            loads[clients].append(found)
            if clients == max(REQUESTS):
                ratios.append(seconds / (found.seconds / len(found.latencies)))
                cpu_ratios.append(cpu / ((service.cpu_seconds() - before) / len(found.latencies)))
    merged = {str(clients): joined(parts).summary() for clients, parts in loads.items()}
    return {
        "clients": merged,
        "predict_images_per_second": round(1 / statistics.median(alone), 1),
        "ratio": {"clock": round(statistics.median(ratios), 2), "cpu": round(statistics.median(cpu_ratios), 2)},
        "ratios": {"clock": [round(one, 2) for one in ratios], "cpu": [round(one, 2) for one in cpu_ratios]},
    }


def joined(parts: list[LoadResult]) -> LoadResult:
    """Return all rounds as one."""
    return LoadResult(
        [one for part in parts for one in part.latencies],
        [one for part in parts for one in part.failed],
        sum(part.seconds for part in parts),
    )


def during_learns(service: ServiceProcess, requests: Iterator[bytes], draw: np.random.Generator) -> dict[str, Any]:
    """Compare latencies during learns with those before and after, in turn."""
    quiet, busy = [], []
    for number in range(ROUNDS):
        quiet.append(ask(service, requests, 8, lambda done: done >= 400))
        job = service.learn([photo(2, draw) for _ in range(120)], f"triangle {number}")["id"]
        service.wait(job, "running", "done")
        over = threading.Event()
        waiter = threading.Thread(target=lambda job=job, over=over: (service.wait(job), over.set()))
        waiter.start()
        busy.append(ask(service, requests, 8, lambda done, over=over: over.is_set()))  # type: ignore[misc]
        waiter.join()
        quiet.append(ask(service, requests, 8, lambda done: done >= 400))
    without, within = joined(quiet).summary(), joined(busy).summary()
    return {"without": without, "during": within, "p99_ratio": round(within["p99_ms"] / without["p99_ms"], 2)}


def swaps(service: ServiceProcess, requests: Iterator[bytes]) -> dict[str, Any]:
    """Change the version in use again and again under load."""
    over, versions = threading.Event(), []

    def change() -> None:
        for number in range(SWAPS):
            name = service.get("/v1/model")["classes"][0]["name"]
            versions.append(service.post(f"/v1/classes/{name}/rename", {"to": f"name-{number}"})["version"])
            versions.append(service.post("/v1/rollback", {"steps": 1})["version"])
        over.set()

    changer = threading.Thread(target=change)
    changer.start()
    found = ask(service, requests, 8, lambda done: over.is_set() or not changer.is_alive())
    changer.join()
    return {
        "swaps": len(versions) // 2,
        "rollbacks": len(versions) // 2,
        **found.summary(),
        "failures": found.failed[:5],
    }


def first_prediction(model: Path, files: list[str]) -> dict[str, Any]:
    """Compare the time from the start of the service to its first prediction with `itaml predict` of one image."""
    service_times, command_times = [], []
    for file in files[:ROUNDS]:
        request = predict_request([Path(file).read_bytes()])
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "itaml", "predict", str(model), file], check=True, capture_output=True)
        command_times.append(time.perf_counter() - start)
        start = time.perf_counter()
        service = ServiceProcess(model)
        while True:
            try:
                assert not ask(service, iter([request]), 1, lambda done: done >= 1).failed
                break
            except OSError:  # not listening yet
                time.sleep(0.01)
        service_times.append(time.perf_counter() - start)
        service.stop()
    ratios = [one / other for one, other in zip(service_times, command_times, strict=True)]
    return {
        "service_seconds": round(statistics.median(service_times), 2),
        "predict_seconds": round(statistics.median(command_times), 2),
        "ratio": round(statistics.median(ratios), 2),
    }


def memory(service: ServiceProcess, requests: Iterator[bytes], number: int) -> dict[str, Any]:
    """Return the memory of the service after a tenth of many requests, and after all of them."""
    tenth = number // 10
    ask(service, requests, 16, lambda done: done >= tenth)
    before = service.megabytes()
    found = ask(service, requests, 16, lambda done: done >= number - tenth)
    after = service.megabytes()
    return {
        "model": "lda on efficientnet-lite0",
        "requests": number,
        "failed": len(found.failed),
        "megabytes_after_a_tenth": round(before),
        "megabytes_after_all": round(after),
        "growth_percent": round(100 * (after / before - 1), 1),
    }


def keep(output: Path | None, results: dict[str, Any]) -> None:
    """Print what was measured, and add it to a file."""
    print(json.dumps(results, indent=1), flush=True)
    if output is not None:
        known = json.loads(output.read_text()) if output.exists() else {}
        output.write_text(json.dumps({**known, **results}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", default="first_prediction throughput learning swaps memory", help="parts to measure")
    given = parser.parse_args()
    draw = np.random.default_rng(time.time_ns())  # photos that no cache of an earlier run knows
    parts = given.only.split()
    keep(given.output, {"environment": environment()})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in (0, 1):
            write(folder / "learn" / ("circle", "square")[kind], [photo(kind, draw) for _ in range(12)])
        model = folder / "shapes"
        ImageClassifier.create(model).learn(folder / "learn")
        photos = [photo(number % 2, draw) for number in range(PHOTOS)]
        files = write(folder / "new", photos)
        requests = itertools.cycle([predict_request([data]) for data in photos])
        warm = write(folder / "warm", [photo(0, draw) for _ in range(16)])
        if "first_prediction" in parts:
            keep(given.output, {"first_prediction": first_prediction(model, warm)})
        service = ServiceProcess(model)
        service.ready()
        ask(service, requests, 8, lambda done: done >= 64)
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            "throughput": lambda: throughput(service, model, warm, files, requests),
            "learning": lambda: during_learns(service, requests, draw),
            "swaps": lambda: swaps(service, requests),
            "memory": lambda: memory(service, requests, given.requests),
        }
        for part, measure in measures.items():
            if part in parts:
                keep(given.output, {part: measure()})
        service.stop()


if __name__ == "__main__":
    main()
