"""Parts of `speed.py`: evaluation, prediction, opening a model, starting the program."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from step_ratio import learner
from timing import Ratios, interleaved, random_set, ratio

from itaml.config import Seeds
from itaml.data.stream import Dataset, TaskStream
from itaml.learners.learner import GradientLearner
from itaml.learners.methods.itaml import ITAML
from itaml.learners.methods.itaml_settings import ITAMLSettings
from itaml.metrics.evaluate import evaluate
from itaml.models.classifier import build_classifier
from itaml.modelstore.image_classifier import ImageClassifier

TASKS = 10


def ready(adapt_steps: int = 10) -> tuple[GradientLearner, TaskStream]:
    """Return a learner of ten tasks of ten classes with 500 exemplars, untrained, and its stream of 500 test images."""
    shape, classes = (3, 32, 32), 100
    train, test = random_set(500, shape, classes), random_set(500, shape, classes)
    splits = tuple(tuple(range(start, start + 10)) for start in range(0, classes, 10))
    stream = TaskStream(Dataset("random", tuple(map(str, range(classes))), train, test), splits)
    settings = ITAMLSettings(
        backbone="resnet18-third", memory=500, epochs=1, horizon=TASKS, adapt_steps=adapt_steps, adapt_guard=False
    )
    made = GradientLearner(
        ITAML, build_classifier("resnet18-third", shape=shape, seed=0), settings=settings, seeds=Seeds.of(0)
    )
    for task in stream:
        made.begin_task(task)
        made.memory.add(task.train, made.task_map.classes, generator=torch.Generator().manual_seed(task.index))
    return made, stream


def adapt_all(made: GradientLearner) -> None:
    """Adapt a fresh copy of the head to every task."""
    made.clear_caches()
    for task in range(TASKS):
        made.predictor.adapted_weights(task)


def evaluation(rounds: int) -> Ratios:
    made, stream = ready()
    pixels = stream.dataset.test.load()[0]

    def ours() -> None:
        made.clear_caches()
        evaluate(made, stream, seen=TASKS, continuum_sizes=[1, 20], seed=0)

    def floor() -> None:
        adapt_all(made)
        for _ in range(2):
            made.class_scores(pixels)

    def released() -> None:
        """Adapt to every task, push all test images through each adapted model, and vote sample by sample."""
        made.clear_caches()
        for task in range(TASKS):
            scores = made.predictor._outputs(pixels, made.predictor.adapted_weights(task))
            for row in scores:
                int(row[made.task_map.columns(task)].argmax())

    rounds = max(4, rounds // 2)
    times = interleaved({"ours": ours, "floor": floor}, rounds=rounds, warmup=1)
    slow = interleaved({"ours": ours, "released": released}, rounds=2, warmup=0)
    heads = {f"{steps}": partial(adapt_all, ready(steps)[0]) for steps in (10, 1)}
    updates = interleaved(heads, rounds=rounds, warmup=1)
    return {
        "full evaluation / two passes and the adaptation": ratio(times, "ours", "floor"),
        "the released code's way / ours": ratio(slow, "released", "ours"),
        "adapting ten heads by 10 updates / by 1": ratio(updates, "10", "1"),
    }


def predict(rounds: int) -> Ratios:
    made = learner("resnet18-third", 10, "fused")
    made.model.eval()
    pixels = random_set(1000, (3, 32, 32), 10).load()[0]

    def forward() -> None:
        with torch.no_grad():
            for part in pixels.split(500):
                made.model(part.contiguous(memory_format=torch.channels_last))

    alone = torch.arange(len(pixels))
    times = interleaved(
        {"predict": lambda: made.predict(pixels, alone), "forward": forward}, rounds=max(3, rounds // 2), warmup=1
    )
    return {"predict, each image alone / bare forward": ratio(times, "predict", "forward")}


def opening(rounds: int) -> Ratios:
    """Time a model on disk after 1, 5, 20 and 50 tasks of two classes: open it, and open it and name one image."""
    with tempfile.TemporaryDirectory() as place:
        root, noise = Path(place), torch.Generator().manual_seed(0)
        classifier = ImageClassifier.create(
            root / "model", backbone="mlp", image_size=16, epochs=1, memory=500, device="cpu"
        )
        saved: dict[str, Path] = {}
        for task in range(50):
            for name in (f"{task} a", f"{task} b"):
                files = root / "images" / str(task) / name
                files.mkdir(parents=True)
                for number in range(12):
                    pixels = torch.randint(0, 256, (16, 16, 3), dtype=torch.uint8, generator=noise).numpy()
                    Image.fromarray(pixels).save(files / f"{number}.png")
            classifier.learn(root / "images" / str(task))
            if task + 1 in (1, 5, 20, 50):
                saved[str(task + 1)] = root / f"after {task + 1}"
                classifier.save(saved[str(task + 1)])
        image = next((root / "images" / "0").rglob("*.png"))
        opened = interleaved({n: partial(ImageClassifier.open, path) for n, path in saved.items()}, rounds=rounds)
        named = interleaved({n: partial(_first_answer, path, image) for n, path in saved.items()}, rounds=rounds)
        found: Ratios = {}
        for n, path in saved.items():
            if n != "1":
                found[f"{n} tasks / 1 task: open"] = ratio(opened, n, "1")
                found[f"{n} tasks / 1 task: open and first answer"] = ratio(named, n, "1")
                found[f"{n} tasks / 1 task: bytes on disk"] = {"median": round(_bytes(path) / _bytes(saved["1"]), 3)}
    return found


def _first_answer(path: Path, image: Path) -> None:
    ImageClassifier.open(path).predict([image])


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def starting(rounds: int) -> Ratios:
    def call(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)

    times = interleaved(
        {
            "pass": call("-c", "pass"),
            "library": call("-c", "import typer, rich.console"),
            "help": call("-m", "itaml", "--help"),
            "itaml": call("-c", "import itaml"),
            "torch": call("-c", "import torch"),
        },
        rounds=max(5, rounds),
        warmup=1,
    )
    beyond = sorted(h - lib for h, lib in zip(times["help"], times["library"], strict=True))
    return {
        "import itaml / bare Python": ratio(times, "itaml", "pass"),
        "itaml --help / import of the command-line library": ratio(times, "help", "library"),
        "import torch / itaml --help": ratio(times, "torch", "help"),
        "seconds of itaml --help beyond the command-line library": {"median": round(beyond[len(beyond) // 2], 3)},
    }
