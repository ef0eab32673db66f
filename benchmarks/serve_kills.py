"""Kill the service with SIGKILL while it learns, start it again: the job is done completely, and once.

    python benchmarks/serve_kills.py [--trials 50] [--add]

A trial copies a small model, starts the service, sends images of a new class and kills the service at one of six
moments in turn, a random time after it is seen on the disk: while half of the upload has arrived, while the job waits
and its process starts, while images are read, while it trains, while the new version is written, and after the model
points to the new version but before the job is done. In every other trial the learning process is killed too, and in
every fifth the service is killed a second time. An upload that was cut off leaves nothing, and is sent again. The next
service has to finish the job: the model has one version more, learned from every image once, all files are good, and
it predicts what a model predicts that learned without being disturbed. A kill that comes after the end of the job does
not count, and is tried again.
Prints JSON, and writes it with --output; --add counts the trials of an earlier run of the same code as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from serve_digits import files, make, state
from serve_process import LEARN_TYPE, ServiceProcess, learn_body

from itaml.modelstore.image_classifier import ImageClassifier

NEW = "digit 4"
SIDE = 640  # of images to learn, so that reading them takes a while
MOMENTS = ("upload", "staging", "reading", "training", "writing", "swapping")
PLACES = {"features": "training", "saving": "training", "verifying": "swapping"}  # phases between two moments
DELAYS = {"staging": 4.0, "reading": 0.15, "training": 0.8, "writing": 0.002, "swapping": 0.02}  # most seconds


def learner_of(service: ServiceProcess) -> int | None:
    """Return the process id of the learning process, None if there is none."""
    found = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(service.process.pid)], capture_output=True, text=True, check=False
    ).stdout
    lines = [line.split(None, 1) for line in found.splitlines() if "itaml.serve.learn_job" in line]
    return int(lines[0][0]) if lines else None


def staging(model: Path) -> Path:
    """Return where the service of a model keeps its jobs."""
    return model.with_name(f"{model.name}.serve") / "jobs"


def moment(model: Path, job: str) -> str:
    """Return where a job is, by what is on the disk."""
    folder = staging(model) / job
    record, progress = (json.loads((folder / name).read_text()) for name in ("job.json", "progress.json"))
    if record.get("state") == "done":
        return "done"
    if json.loads((model / "current.json").read_text())["version"] > 1:
        return "swapping"
    if any(path.name.startswith(".") for path in (model / "versions").iterdir()):
        return "writing"
    return str(progress["phase"])


def wait_for(model: Path, job: str, wanted: str) -> None:
    """Wait until a job has come to a moment, or past it."""
    order = MOMENTS.index(wanted)
    while True:
        try:
            found = moment(model, job)
        except (OSError, ValueError):  # not written yet, or just replaced
            time.sleep(0.0005)
            continue
        if found == "done" or MOMENTS.index(PLACES.get(found, found)) >= order:
            return
        time.sleep(0.0005)


def cut_upload(model: Path, images: list[bytes], draw: random.Random) -> None:
    """Kill a service that has received a part of an upload; nothing may be left that looks like a job."""
    service = ServiceProcess(model)
    service.ready()
    body = learn_body(images, NEW)
    head = (
        f"POST /v1/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: {LEARN_TYPE}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(head.encode() + body[: int(len(body) * draw.uniform(0.1, 0.99))])
        time.sleep(draw.uniform(0, 0.2))
        service.kill()
    assert ImageClassifier.open(model).version == 1
    assert not [path for path in staging(model).iterdir() if not path.name.startswith(".")], "half an upload is a job"


def kill_in(
    model: Path, wanted: str, draw: random.Random, images: list[bytes], *, learner_too: bool
) -> tuple[str, str]:
    """Kill a service at a moment of its job; return the job and where it was."""
    service = ServiceProcess(model)
    service.ready()
    job = service.learn(images, NEW)["id"]
    wait_for(model, job, "staging")
    learner = learner_of(service) if learner_too else None  # now: it takes longer than a moment
    wait_for(model, job, wanted)
    time.sleep(draw.uniform(0, DELAYS[wanted]))
    if learner is not None:
        with contextlib.suppress(ProcessLookupError):  # it may have ended just now
            os.kill(learner, signal.SIGKILL)
    service.kill()
    try:
        return job, moment(model, job)
    except OSError:
        return job, "staging"


def trial(model: Path, number: int, draw: random.Random, images: list[bytes]) -> str:
    """Kill once or twice; return where the first kill came."""
    wanted = MOMENTS[number % len(MOMENTS)]
    if wanted == "upload":
        cut_upload(model, images, draw)
        service = ServiceProcess(model)
        service.ready()
        job, found = service.learn(images, NEW)["id"], "upload"
    else:
        job, found = kill_in(model, wanted, draw, images, learner_too=number // len(MOMENTS) % 2 == 1)
        if number % 5 == 4:
            service = ServiceProcess(model)
            service.ready()
            time.sleep(draw.uniform(0, 5))
            service.kill()
        service = ServiceProcess(model)
        service.ready()
    done = service.wait(job)
    code = service.stop()
    if done["state"] != "done" or done["result"]["new_classes"] != [NEW]:
        raise AssertionError(f"the job is {done}")
    assert code in (0, -signal.SIGTERM, 128 + signal.SIGTERM), f"the service ended with code {code}"
    return found


def expected_state(original: Path, images: list[bytes]) -> dict[str, Any]:
    """Return the state of a model whose service was not disturbed."""
    undisturbed = Path(shutil.copytree(original, original.with_name("undisturbed")))
    service = ServiceProcess(undisturbed)
    service.ready()
    service.wait(service.learn(images, NEW)["id"])
    service.stop()
    return state(undisturbed)


def run(trials: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Return how the trials ended."""
    draw, original, images = random.Random(seed), folder / "original", files(4, 150, side=SIDE)
    make(original)
    expected = expected_state(original, images)
    failures, moments, number, counted = list[str](), dict[str, int](), seed, 0
    while counted < trials:
        model = Path(shutil.copytree(original, folder / "models" / "killed"))
        try:
            found = trial(model, number, draw, images)
            moments[found] = moments.get(found, 0) + 1
            counted += found != "done"
            now = state(model)
            if now != expected:
                failures.append(f"trial {number}: {json.dumps(now)[:500]} instead of {json.dumps(expected)[:500]}")
        except (AssertionError, RuntimeError, OSError) as error:
            failures.append(f"trial {number}: {error}")
            print(failures[-1], file=sys.stderr, flush=True)
            counted += 1
        shutil.rmtree(folder / "models")
        number += 1
        print(f"{counted} of {trials}, {len(failures)} failures, {moments}", file=sys.stderr, flush=True)
    too_late = moments.pop("done", 0)
    order = [name for name in (*MOMENTS, *PLACES) if name in moments]
    return {
        "trials": trials,
        "failures": failures,
        "killed_in": {name: moments[name] for name in order},
        "too_late": too_late,
    }


def added(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return two runs as one."""
    moments = {
        name: known["killed_in"].get(name, 0) + found["killed_in"].get(name, 0)
        for name in {**known["killed_in"], **found["killed_in"]}
    }
    return {
        "trials": known["trials"] + found["trials"],
        "failures": known["failures"] + found["failures"],
        "killed_in": moments,
        "too_late": known["too_late"] + found["too_late"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--add", action="store_true", help="add to the trials that the file has")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.trials, Path(folder), given.seed)
    print(json.dumps(found, indent=1))
    if given.output is not None:
        known = json.loads(given.output.read_text()) if given.output.exists() else {}
        kills = added(known["kills"], found) if given.add and "kills" in known else found
        given.output.write_text(json.dumps({**known, "kills": kills}, indent=1) + "\n")
    sys.exit(bool(found["failures"]))


if __name__ == "__main__":
    main()
