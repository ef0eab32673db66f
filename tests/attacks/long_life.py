"""The long life of a model: a hundred learns, with kills, rollbacks, forgets and predictions of others in between.

    cd tests && python -m attacks.long_life

The model must be whole after every one of them; `make test-attacks` counts that. Run as above, time, disk, memory and
accuracy of every learn are written to benchmarks/results/long-life.json, from which the documents are filled.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from attacks.harness import Ended, Tally, isolated, killed, start_child
from attacks.kill_learn import sleeping
from attacks.long_life_steps import TRAIN, Measured, forget, learn, measure_accuracy, predict_until, roll_back, state
from itaml.experiment.environment import environment
from itaml.modelstore.image_classifier import ImageClassifier

OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "long-life.json"
MEMORY = 400  # images; full after 20 classes
KILLS, ROLLBACKS, FORGETS = 0.4, 0.1, 0.1  # of each learn
LEARNERS: dict[str, dict[str, Any]] = {
    "itaml": {"epochs": 8},  # what images of 8 x 8 pixels get, with an MLP; but 60 epochs would be chosen
    "lda on pixels": {"method": "lda"},
    "lda on a frozen backbone": {"method": "lda", "backbone": "efficientnet-lite0", "image_size": 32},
}


@dataclass
class Life:
    """What happened to a model: its learns as they were measured, and how often everything else was done."""

    learns: list[Measured] = field(default_factory=list)
    kills: int = 0
    rollbacks: int = 0
    forgets: int = 0
    predictions: int = 0
    tally: Tally = field(default_factory=Tally)

    def judge(self, name: str, ended: Ended, expected: object = None) -> Any:
        """Note a step: it must return, and return what is expected if that is given. Return what it returned."""
        wrong = None if ended.how == "value" else f"{ended.how}: {ended.value}"
        if wrong is None and expected is not None and ended.value != expected:
            wrong = f"{ended.value} instead of {expected}"
        self.tally.add(name, wrong, name.partition(" ")[0])
        return ended.value if wrong is None else None


def attack(trials: int, folder: Path, draw: random.Random) -> Tally:
    """Live through `trials` learns; every step is a trial."""
    return live(trials, folder / "model", draw, LEARNERS["itaml"]).tally


def live(learns: int, path: Path, draw: random.Random, options: dict[str, Any]) -> Life:
    """Make a model and let it learn one class after another; nothing may be lost on the way."""
    life, known, seconds = Life(), list[int](), 1.0
    warm = path.with_name("warm")
    ImageClassifier.create(warm, precision="fp32", **{**options, "epochs": 1})
    learn(warm, 0)  # loads everything once, before the forks
    ImageClassifier.create(path, memory=MEMORY, precision="fp32", **options)
    others = start_child(lambda: predict_until(path, path.with_name("end"), path.with_name("report.json")))
    for number in range(learns):
        if draw.random() < KILLS:
            kill(life, path, known, number, seconds=draw.uniform(0, 1.2 * seconds))
        found = life.judge(f"learn {number}", isolated(lambda number=number: learn(path, number), seconds=600))  # type: ignore[misc]
        if found is None:
            break
        if draw.random() < ROLLBACKS:
            life.judge(f"rollback {number}", isolated(lambda: roll_back(path)), [known, []])
            again = isolated(lambda number=number: learn(path, number), seconds=600)  # type: ignore[misc]
            life.judge(f"learn again {number}", again)
            life.rollbacks += 1
        known.append(number)
        life.judge(f"state {number}", isolated(lambda: state(path)), [known, []])
        accuracy = life.judge(f"accuracy {number}", isolated(lambda: measure_accuracy(path, known)))
        life.learns.append(Measured(**found, known=len(known), accuracy=accuracy))
        seconds = life.learns[-1].wall_seconds
        if len(known) > 2 and draw.random() < FORGETS:
            gone = known.pop(draw.randrange(len(known)))
            life.judge(f"forget {gone}", isolated(lambda gone=gone: forget(path, gone)), [known, []])  # type: ignore[misc]
            life.forgets += 1
    path.with_name("end").touch()
    others.join()
    report = json.loads(path.with_name("report.json").read_text())
    life.predictions = report["predictions"]
    for failure in report["failures"]:
        life.tally.failed(f"a prediction of another process: {failure}")
    life.tally.trials += life.predictions
    life.tally.outcomes["predict"] += life.predictions
    return life


def kill(life: Life, path: Path, known: list[int], number: int, *, seconds: float) -> None:
    """Kill a learn; the model is as before, or the learn was done and is rolled back."""
    killed(lambda: learn(path, number), after=sleeping(seconds))
    life.kills += 1
    ended = isolated(lambda: state(path))
    if ended.value == [[*known, number], []]:
        ended = isolated(lambda: roll_back(path))
        life.rollbacks += 1
    life.judge(f"kill {number}", ended, [known, []])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--learns", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=["itaml", "lda on pixels"], choices=list(LEARNERS))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["ITAML_RUNTIME"] = "torch"  # ONNX Runtime has threads, which do not survive a fork
    logging.getLogger("itaml").setLevel(logging.ERROR)
    lives = {}
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            life = live(given.learns, Path(folder) / "model", random.Random(0), LEARNERS[name])
        print(name, len(life.learns), "learns", life.kills, "kills", life.tally.failures)
        counts = {key: getattr(life, key) for key in ("kills", "rollbacks", "forgets", "predictions")}
        lives[name] = {**counts, "failures": life.tally.failures, "learns": [asdict(one) for one in life.learns]}
        write(given.output, lives)


def write(path: Path, lives: dict[str, Any]) -> None:
    """Write what was measured so far."""
    value = {"environment": environment(), "memory": MEMORY, "images_per_class": TRAIN, "lives": lives}
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
